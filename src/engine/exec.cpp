// One more process in an actor: it is resumed first when it has to be, and is active meanwhile.
#include "ate/util/scope_exit.hpp"
#include "engine/state.hpp"

namespace ate::engine {

namespace {

/// Each is a process of the runtime on the host.
constexpr std::size_t kExecsAtOnce = 64;

}  // namespace

async::Task<Result<core::ExecOutput>> Engine::State::exec(ActorKey key, core::ExecPlan plan) {
  const std::shared_ptr<State> self = shared_from_this();
  if (execs >= kExecsAtOnce) {
    co_return fail(Error(Errc::Unavailable,
                         std::to_string(kExecsAtOnce) + " commands run on this node already")
                       .with("retryAfterSeconds", std::int64_t{1}));
  }
  ++execs;
  const ScopeExit leave([this]() { --execs; });
  ATE_CO_ASSIGN(const GuestPtr guest, co_await awake_guest(key));
  co_return co_await guest->sandbox->exec(std::move(plan));
}

}  // namespace ate::engine
