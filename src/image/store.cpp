#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ate/image/digest.hpp"
#include "ate/image/image.hpp"
#include "ate/os/fs.hpp"
#include "ate/util/failpoint.hpp"
#include "ate/util/scope_exit.hpp"
#include "image/helper_run.hpp"
#include "image/limits.hpp"
#include "image/store_disk.hpp"

namespace ate::image {

namespace {

std::string name_of(const Reference& reference) {
  return std::string(transport_name(reference.transport)) + ":" + reference.path +
         (reference.tag.empty() ? "" : ":" + reference.tag);
}

bool is_same_source(const Reference& a, const Reference& b) {
  return a.transport == b.transport && a.path == b.path;
}

}  // namespace

namespace {

/// At most `limit` helpers of a kind at a time: loading a folder of templates must not start fifty.
struct Slots {
  Slots(async::Context& context, int most) : limit(most), freed(context) {}

  void release() {
    --used;
    freed.set();
  }

  /// Returns when a slot was taken; the caller releases it.
  static async::Task<void> take(Slots& self) {
    while (self.used >= self.limit) {
      self.freed.reset();
      co_await self.freed.wait();
    }
    ++self.used;
  }

  int limit;
  int used = 0;
  async::Event freed;
};

/// Unpacking is bound by the disk; resolving is short, but each is a process.
constexpr int kUnpacksAtOnce = 2;
constexpr int kResolvesAtOnce = 4;

}  // namespace

struct Store::State {
  /// One unpack that several may wait for.
  struct Flight {
    Flight(async::Context& context, Reference from) : source(std::move(from)), ended(context) {}

    Reference source;
    std::optional<Result<Unpacked>> outcome;  // empty at the end: the one who led was cancelled
    async::Event ended;
  };

  State(async::Context& c, async::Reaper& r, Options o)
      : context(c),
        reaper(r),
        options(std::move(o)),
        unpacks(c, kUnpacksAtOnce),
        resolves(c, kResolvesAtOnce) {}

  [[nodiscard]] HelperOptions helper_options() const {
    HelperOptions wanted;
    wanted.executable = options.helper;
    wanted.cgroup_fd = options.helper_cgroup_fd;
    wanted.limit = options.unpack_timeout;
    return wanted;
  }

  [[nodiscard]] HelperRequest request(const Reference& reference) const {
    HelperRequest wanted;
    wanted.transport = reference.transport;
    wanted.tag = reference.tag;
    wanted.cpu_seconds = static_cast<std::uint64_t>(options.unpack_timeout.count()) + 1;
    return wanted;
  }

  std::optional<Unpacked> find(const std::string& digest);

  static async::Task<Result<std::string>> resolve(std::shared_ptr<State> self, Reference reference);
  static async::Task<Result<Unpacked>> ensure(std::shared_ptr<State> self, Reference reference,
                                              std::string digest);
  static async::Task<Result<Unpacked>> unpack(std::shared_ptr<State> self, Reference reference,
                                              std::string digest);
  struct Attempt;
  static async::Task<Attempt> try_unpack(std::shared_ptr<State> self, Reference reference,
                                         std::string digest);

  async::Context& context;
  async::Reaper& reaper;
  Options options;
  Slots unpacks;
  Slots resolves;
  std::map<std::string, std::shared_ptr<Flight>> flights;
  /// Descriptions read so far: a resume needs one each time, and they never change.
  std::map<std::string, Unpacked> known;
};

struct Store::State::Attempt {
  explicit Attempt(Result<Unpacked> r, bool k) : result(std::move(r)), killed(k) {}

  Result<Unpacked> result;
  bool killed;
};

std::optional<Unpacked> Store::State::find(const std::string& digest) {
  if (!is_sha256_digest(digest)) {
    return std::nullopt;
  }
  const auto found = known.find(digest);
  if (found != known.end()) {
    if (os::exists(found->second.rootfs)) {
      return found->second;
    }
    known.erase(found);  // removed by hand
  }
  std::optional<Unpacked> image = read_image(options.directory, digest);
  if (image) {
    known.emplace(digest, *image);
  }
  return image;
}

async::Task<Result<std::string>> Store::State::resolve(std::shared_ptr<State> self,
                                                       Reference reference) {
  const std::string name = name_of(reference);
  co_await Slots::take(self->resolves);
  const ScopeExit release([&self]() { self->resolves.release(); });
  for (int attempt = 1;; ++attempt) {
    auto open = [&self, &reference]() {
      return HelperJob::open(reference, self->request(reference));
    };
    Result<std::shared_ptr<HelperJob>> job =
        co_await async::run_blocking(self->context, std::move(open));
    if (!job) {
      co_return fail(std::move(job).error().context("image " + name));
    }
    HelperEnd end = co_await run_helper(self->reaper, self->helper_options(), *job);
    if (end.reply) {
      co_return end.reply->digest;
    }
    if (!end.killed || attempt == 2) {
      co_return fail(std::move(end.reply).error().context("image " + name));
    }
  }
}

async::Task<Store::State::Attempt> Store::State::try_unpack(std::shared_ptr<State> self,
                                                            Reference reference,
                                                            std::string digest) {
  auto open = [&self, &reference, &digest]() {
    HelperRequest request = self->request(reference);
    request.unpack = true;
    request.digest = digest;
    return open_unpack_job(self->options.directory, reference, request);
  };
  Result<std::shared_ptr<HelperJob>> opened =
      co_await async::run_blocking(self->context, std::move(open));
  if (!opened) {
    co_return Attempt(fail(std::move(opened).error()), false);
  }
  const std::shared_ptr<HelperJob> job = *opened;
  // Cancelled: nobody waits for the removal, and the loop must not.
  ScopeExit cancelled(
      [self, job]() { boost::asio::post(self->context.pool, [job]() { discard(*job); }); });
  HelperEnd end = co_await run_helper(self->reaper, self->helper_options(), job);
  auto finish = [&self, &job, &end, &digest]() -> Result<Unpacked> {
    Result<Unpacked> image = fail(Errc::Internal, "the unpack helper unpacked another image");
    if (!end.reply) {
      image = fail(std::move(end.reply).error());
    } else if (end.reply->digest == digest) {
      image = commit_image(self->options.directory, *job, *end.reply);
    }
    if (!image) {
      discard(*job);
    }
    return image;
  };
  Result<Unpacked> image = co_await async::run_blocking(self->context, std::move(finish));
  cancelled.dismiss();
  co_return Attempt(std::move(image), end.killed);
}

async::Task<Result<Unpacked>> Store::State::unpack(std::shared_ptr<State> self, Reference reference,
                                                   std::string digest) {
  co_await Slots::take(self->unpacks);
  const ScopeExit release([&self]() { self->unpacks.release(); });
  Attempt attempt = co_await try_unpack(self, reference, digest);
  if (attempt.killed) {
    // Once more: the OOM killer or an operator says nothing about the image.
    Attempt again = co_await try_unpack(self, reference, digest);
    co_return std::move(again.result);
  }
  co_return std::move(attempt.result);
}

async::Task<Result<Unpacked>> Store::State::ensure(std::shared_ptr<State> self, Reference reference,
                                                   std::string digest) {
  const std::string name = name_of(reference);
  if (!is_sha256_digest(digest)) {
    co_return fail(Errc::ImageInvalid, "image " + name + ": no sha256 digest to unpack");
  }
  while (true) {
    std::optional<Unpacked> image = self->find(digest);
    if (image) {
      co_return std::move(*image);
    }
    const auto running = self->flights.find(digest);
    if (running != self->flights.end()) {
      const std::shared_ptr<Flight> flight = running->second;
      co_await flight->ended.wait();
      // An error of another source says nothing about ours.
      if (flight->outcome && (*flight->outcome || is_same_source(flight->source, reference))) {
        co_return *flight->outcome;
      }
      continue;
    }
    const auto flight = std::make_shared<Flight>(self->context, reference);
    self->flights.emplace(digest, flight);
    const ScopeExit land([&self, &digest, flight]() {
      self->flights.erase(digest);
      flight->ended.set();
    });
    Result<Unpacked> result = co_await unpack(self, reference, digest);
    if (!result) {
      result = fail(std::move(result).error().context("image " + name));
    }
    flight->outcome = result;
    co_return result;
  }
}

Store::Store(async::Context& context, async::Reaper& reaper, Options options)
    : state_(std::make_shared<State>(context, reaper, std::move(options))) {}

Store::~Store() = default;

Status Store::prepare() {
  return prepare_store(state_->options.directory);
}

async::Task<Result<std::string>> Store::resolve(Reference reference) {
  return State::resolve(state_, std::move(reference));
}

async::Task<Result<Unpacked>> Store::ensure(Reference reference, std::string digest) {
  return State::ensure(state_, std::move(reference), std::move(digest));
}

std::optional<Unpacked> Store::find(const std::string& digest) {
  return state_->find(digest);
}

async::Task<Result<std::vector<Store::Listed>>> Store::list() {
  const std::shared_ptr<State> state = state_;
  auto look = [state]() { return list_images(state->options.directory); };
  Result<std::vector<Listed>> found = co_await async::run_blocking(state->context, std::move(look));
  co_return found;
}

async::Task<Status> Store::remove(std::string digest) {
  const std::shared_ptr<State> state = state_;
  if (!is_sha256_digest(digest) || state->flights.contains(digest)) {
    co_return fail(Errc::InUse, "image " + digest + " is being unpacked");
  }
  state->known.erase(digest);
  ATE_CO_ASSIGN(std::string aside, set_aside(state->options.directory, digest));
  if (aside.empty()) {
    co_return Status();
  }
  if (failpoint("image-remove-after-rename")) {
    co_return fail(Errc::Internal, "failpoint image-remove-after-rename");
  }
  auto unlink = [aside]() { return os::remove_tree(aside); };
  Status gone = co_await async::run_blocking(state->context, std::move(unlink));
  co_return gone;
}

}  // namespace ate::image
