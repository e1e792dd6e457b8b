#include "ate/net/netns.hpp"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <set>

#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"
#include "ate/util/ids.hpp"
#include "ate/util/scope_exit.hpp"
#include "net/pair.hpp"

namespace ate::net {

namespace {

constexpr std::size_t kIdDigits = 8;
constexpr int kNameTries = 16;

std::string resolved(const std::string& path) {
  char* text = ::realpath(path.c_str(), nullptr);
  const std::string out = text == nullptr ? path : std::string(text);
  ::free(text);  // NOLINT: realpath allocates with malloc
  return out;
}

Result<bool> is_mount_point(const std::string& path) {
  ATE_ASSIGN(const std::vector<os::MountEntry> mounts, os::list_mounts("/proc", path));
  return std::any_of(mounts.begin(), mounts.end(),
                     [&path](const os::MountEntry& entry) { return entry.mount_point == path; });
}

}  // namespace

struct NetnsFactory::State {
  State(async::Context& c, std::string d, std::size_t n)
      : context(c),
        directory(std::move(d)),
        ahead(n),
        settled(context),
        refilled(context),
        background(context, {}) {
    settled.set();
    refilled.set();
  }

  void begin_making(const std::string& id) {
    in_making.insert(id);
    settled.reset();
  }

  void end_making(const std::string& id) {
    in_making.erase(id);
    if (in_making.empty()) {
      settled.set();
    }
  }

  static async::Task<Result<NetnsPair>> make(std::shared_ptr<State> self);
  static async::Task<Status> refill(std::shared_ptr<State> self);
  static async::Task<void> refill_quietly(std::shared_ptr<State> self);
  static async::Task<Status> remove(std::shared_ptr<State> self, std::string id);

  async::Context context;
  std::string directory;
  std::size_t ahead;
  std::deque<NetnsPair> stock;
  std::set<std::string> in_making;
  async::Event settled;   // nothing is in the making
  async::Event refilled;  // nobody is refilling
  async::TaskScope background;
};

async::Task<Result<NetnsPair>> NetnsFactory::State::make(std::shared_ptr<State> self) {
  // Ids are random, so a name left by a dead process costs another try and nothing else.
  for (int attempt = 1;; ++attempt) {
    const std::string id = random_hex(kIdDigits);
    self->begin_making(id);
    const ScopeExit made([&self, &id] { self->end_making(id); });
    auto work = [directory = self->directory, id]() { return make_pair(directory, id); };
    Result<NetnsPair> pair = co_await async::run_blocking(self->context, std::move(work));
    if (pair || pair.error().code() != Errc::AlreadyExists || attempt == kNameTries) {
      co_return pair;
    }
  }
}

async::Task<Status> NetnsFactory::State::refill(std::shared_ptr<State> self) {
  while (!self->refilled.is_set()) {
    co_await self->refilled.wait();
  }
  self->refilled.reset();
  const ScopeExit ended([&self] { self->refilled.set(); });
  Status status;
  while (status && self->stock.size() < self->ahead) {
    Result<NetnsPair> pair = co_await make(self);
    if (pair) {
      self->stock.push_back(std::move(*pair));
    } else {
      status = fail(std::move(pair).error());
    }
  }
  co_return status;
}

async::Task<void> NetnsFactory::State::refill_quietly(std::shared_ptr<State> self) {
  const Status status = co_await refill(self);
  // IGNORED: an empty stock shows when the next acquire makes its pair itself, and says why.
  static_cast<void>(status);
}

async::Task<Status> NetnsFactory::State::remove(std::shared_ptr<State> self, std::string id) {
  auto work = [directory = self->directory, id]() { return remove_pair(directory, id); };
  Status status = co_await async::run_blocking(self->context, std::move(work));
  co_return status;
}

NetnsFactory::NetnsFactory(async::Context& context, std::string directory, std::size_t ahead)
    : state_(std::make_shared<State>(context, std::move(directory), ahead)) {}

NetnsFactory::~NetnsFactory() = default;

Status NetnsFactory::prepare() {
  ATE_TRY(os::make_dirs(state_->directory, 0700));
  state_->directory = resolved(state_->directory);
  ATE_ASSIGN(const bool mounted, is_mount_point(state_->directory));
  if (!mounted) {
    ATE_TRY(os::bind_mount(state_->directory, state_->directory));
  }
  // Private: a name that is mounted here shows up in no other mount namespace, where it would keep
  // the network alive after we have let it go.
  return os::make_private(state_->directory);
}

async::Task<Result<NetnsPair>> NetnsFactory::acquire() {
  const std::shared_ptr<State> state = state_;
  Result<NetnsPair> pair = fail(Errc::Internal, "not made");
  if (state->stock.empty()) {
    pair = co_await State::make(state);
  } else {
    pair = std::move(state->stock.front());
    state->stock.pop_front();
  }
  state->background.spawn("netns refill", State::refill_quietly(state));
  co_return pair;
}

async::Task<Status> NetnsFactory::destroy(NetnsPair pair) {
  const std::shared_ptr<State> state = state_;
  pair.router.reset();
  Status status = co_await State::remove(state, pair.id);
  co_return status;
}

Result<std::vector<std::string>> NetnsFactory::list() const {
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir(state_->directory));
  std::set<std::string> ids;
  for (const std::string& name : names) {
    const std::string id = name.substr(0, kIdDigits);
    if (is_pair_id(id) && (name == id + ".s" || name == id + ".r")) {
      ids.insert(id);
    }
  }
  for (const NetnsPair& pair : state_->stock) {
    ids.erase(pair.id);
  }
  for (const std::string& id : state_->in_making) {
    ids.erase(id);
  }
  return std::vector<std::string>(ids.begin(), ids.end());
}

Result<NetnsPair> NetnsFactory::open(const std::string& id) const {
  if (!is_pair_id(id)) {
    return fail(Errc::Internal, "not the id of a netns pair: " + id);
  }
  NetnsPair pair;
  pair.id = id;
  pair.sandbox_path = sandbox_name(state_->directory, id);
  pair.router_path = router_name(state_->directory, id);
  UniqueFd router(::open(pair.router_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!router || !os::exists(pair.sandbox_path)) {
    return fail(Errc::NotFound, "netns pair " + id + " is not there");
  }
  pair.router = std::make_shared<UniqueFd>(std::move(router));
  return pair;
}

async::Task<Status> NetnsFactory::purge(std::string id) {
  const std::shared_ptr<State> state = state_;
  if (!is_pair_id(id)) {
    co_return fail(Errc::Internal, "not the id of a netns pair: " + id);
  }
  Status status = co_await State::remove(state, std::move(id));
  co_return status;
}

async::Task<Status> NetnsFactory::refill() {
  const std::shared_ptr<State> state = state_;
  Status status = co_await State::refill(state);
  co_return status;
}

void NetnsFactory::warm() {
  state_->background.spawn("netns refill", State::refill_quietly(state_));
}

async::Task<void> NetnsFactory::drain() {
  const std::shared_ptr<State> state = state_;
  state->ahead = 0;
  co_await state->background.close();
  // A pair that is in the making goes to the stock (or to who asked) and from there away.
  co_await state->settled.wait();
  while (!state->stock.empty()) {
    NetnsPair pair = std::move(state->stock.front());
    state->stock.pop_front();
    pair.router.reset();
    const Status status = co_await State::remove(state, pair.id);
    // IGNORED: the next start purges what is left.
    static_cast<void>(status);
  }
  const Result<std::vector<std::string>> left = os::list_dir(state->directory);
  if (left && left->empty()) {
    // IGNORED: the mount of the directory on itself does no harm when it stays.
    static_cast<void>(os::unmount_detach(state->directory));
  }
}

}  // namespace ate::net
