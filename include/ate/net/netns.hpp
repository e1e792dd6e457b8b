#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/util/fd.hpp"

namespace ate::net {

/// Addresses are the same in every actor, so nothing in a snapshot ever changes (design.md section
/// 6).
inline constexpr const char* kActorAddress = "169.254.17.2";
inline constexpr const char* kGatewayAddress = "169.254.17.1";
inline constexpr int kPrefixLength = 30;

/// Two network namespaces with a veth between: `sandbox` (eth0, 169.254.17.2/30, default route by
/// .1, lo up) is given to runsc; `router` (r0, 169.254.17.1/30, lo up) is where the daemon dials
/// from. Both are bind-mounted at <runDir>/netns/<id>.s and .r. Value handle; `destroy` is
/// explicit.
struct NetnsPair {
  std::string id;  // 8 random hex digits
  std::string sandbox_path;
  std::string router_path;
  std::shared_ptr<UniqueFd> router;  // open fd of the router namespace
};

/// Makes pairs ahead of demand (`ahead` of them) and destroys them after use. All kernel work runs
/// on the pool.
class NetnsFactory {
 public:
  /// `directory`: <runDir>/netns, created 0700, made a private mount when it isn't. `drain` must
  /// have ended before this is destroyed, once `acquire` was used.
  NetnsFactory(async::Context& context, std::string directory, std::size_t ahead);
  ~NetnsFactory();
  NetnsFactory(const NetnsFactory&) = delete;
  NetnsFactory& operator=(const NetnsFactory&) = delete;
  NetnsFactory(NetnsFactory&&) = delete;
  NetnsFactory& operator=(NetnsFactory&&) = delete;

  [[nodiscard]] Status prepare();
  /// One from the stock, else made now. Asks for a refill.
  [[nodiscard]] async::Task<Result<NetnsPair>> acquire();
  /// Unmounts, unlinks, closes. Waits until the names are gone; the kernel frees the rest by
  /// itself.
  [[nodiscard]] async::Task<Status> destroy(NetnsPair pair);
  /// Ids of all pairs that exist under the directory (also half-made ones), but not those of our
  /// own stock.
  [[nodiscard]] Result<std::vector<std::string>> list() const;
  /// Handle of a pair that another daemon made. NotFound when a half is missing.
  [[nodiscard]] Result<NetnsPair> open(const std::string& id) const;
  /// Removes a pair by id, whatever half of it is there.
  [[nodiscard]] async::Task<Status> purge(std::string id);
  /// Fills the stock up to `ahead`.
  [[nodiscard]] async::Task<Status> refill();
  /// Begins to fill it, so that the first one who asks need not wait either.
  void warm();
  /// Destroys the stock and makes no more (shutdown). Pairs that were handed out stay.
  [[nodiscard]] async::Task<void> drain();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Connected non-blocking TCP socket to 169.254.17.2:port opened in the router namespace.
/// UpstreamFailed with ECONNREFUSED/… in sys_errno when nothing listens, DeadlineExceeded. A SYN
/// that nobody answers (the sandbox is just coming up) is repeated by the kernel after a second
/// only: poll readiness with short timeouts instead of waiting in one dial.
[[nodiscard]] async::Task<Result<UniqueFd>> dial(async::Context& context, NetnsPair pair,
                                                 std::uint16_t port,
                                                 std::chrono::milliseconds timeout);

}  // namespace ate::net
