#include "store/writer.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <future>
#include <utility>
#include <vector>

namespace ate::store {

namespace {

// Latency of the first of a group ends with the group's: about 5 us per batch against 1 ms and
// more for the sync they share.
constexpr std::size_t kMaxGroup = 256;
// Frames (pages) in the log. A checkpoint syncs twice, so it runs when nobody waits, unless the log
// gets too long for that.
constexpr int kIdleFrames = 1000;
constexpr int kBusyFrames = 8000;

/// A unit of the queue: a batch, or a function.
struct Job {
  explicit Job(async::Context& context) : done(context) {}

  std::unique_ptr<Write> write;
  std::function<Status(Session&)> work;
  bool alone = false;  // shares a turn of the thread with nothing before or after it
  Status result;
  async::Event done;
};

using Jobs = std::vector<std::shared_ptr<Job>>;

void perform(Session& session, const Jobs& jobs) {
  std::vector<Write*> group;
  for (const auto& job : jobs) {
    if (job->work) {
      job->result = job->work(session);
    } else {
      group.push_back(job->write.get());
    }
  }
  if (!group.empty()) {
    session.write(group);
  }
}

std::unexpected<Error> closed() {
  return fail(Errc::Unavailable, "the state database is closed: ate-noded is stopping");
}

}  // namespace

struct Writer::State : std::enable_shared_from_this<State> {
  State(async::Context& c, Session s) : context(c), session(std::move(s)) {}

  void enqueue(std::shared_ptr<Job> job) {
    queue.push_back(std::move(job));
    start_next();
  }

  void start_next() {
    if (busy) {
      return;
    }
    if (queue.empty()) {
      if (!closed && session.wal_frames() >= kIdleFrames) {
        checkpoint();
      }
      return;
    }
    if (!closed && session.wal_frames() >= kBusyFrames) {
      checkpoint();
      return;
    }
    submit(take_group());
  }

  Jobs take_group() {
    Jobs jobs;
    while (!queue.empty() && jobs.size() < kMaxGroup) {
      const bool alone = queue.front()->alone;
      if (alone && !jobs.empty()) {
        break;
      }
      jobs.push_back(std::move(queue.front()));
      queue.pop_front();
      if (alone) {
        break;
      }
    }
    return jobs;
  }

  void checkpoint() {
    auto job = std::make_shared<Job>(context);
    job->work = [](Session& s) {
      s.checkpoint();
      return Status{};
    };
    submit({std::move(job)});
  }

  void submit(Jobs jobs) {
    busy = true;
    // SAFETY: the thread is joined before the Writer lets go of this State, so `this` outlives it;
    // the shared pointer for the way back is made there and ends up on the loop.
    boost::asio::post(thread, [this, jobs = std::move(jobs)]() mutable {
      perform(session, jobs);
      boost::asio::post(context.loop, [self = shared_from_this(), jobs = std::move(jobs)]() {
        self->busy = false;
        self->start_next();  // before anyone resumes: the thread idles for one turn only
        for (const auto& job : jobs) {
          job->done.set();
        }
      });
    });
  }

  async::Context& context;
  Session session;
  std::deque<std::shared_ptr<Job>> queue;
  bool busy = false;
  bool closed = false;
  boost::asio::thread_pool thread{1};
};

Writer::Writer(async::Context& context, Session session)
    : state_(std::make_shared<State>(context, std::move(session))) {}

Writer::~Writer() {
  state_->queue.clear();
  state_->busy = true;  // a completion that is still on the loop starts nothing any more
  state_->thread.join();
  state_->session.close();
}

async::Task<Result<std::vector<std::int64_t>>> Writer::write(Rows rows) {
  if (state_->closed) {
    co_return closed();
  }
  auto job = std::make_shared<Job>(state_->context);
  job->write = std::make_unique<Write>();
  job->write->rows = std::move(rows);
  state_->enqueue(job);
  co_await job->done.wait();
  ATE_CO_TRY(std::move(job->write->result));
  co_return std::move(job->write->event_ids);
}

async::Task<Status> Writer::run(std::function<Status(Session&)> work) {
  if (state_->closed) {
    co_return closed();
  }
  auto job = std::make_shared<Job>(state_->context);
  job->work = std::move(work);
  state_->enqueue(job);
  co_await job->done.wait();
  co_return std::move(job->result);
}

void Writer::run_blocking(const std::function<void(Session&)>& work) {
  std::promise<void> finished;
  boost::asio::post(state_->thread, [this, &work, &finished]() {
    work(state_->session);
    finished.set_value();
  });
  finished.get_future().wait();
}

async::Task<void> Writer::close() {
  if (state_->closed) {
    co_return;
  }
  auto job = std::make_shared<Job>(state_->context);
  job->alone = true;
  job->work = [](Session& session) {
    session.close();
    return Status{};
  };
  state_->closed = true;
  state_->enqueue(job);
  co_await job->done.wait();
}

}  // namespace ate::store
