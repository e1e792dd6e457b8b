#pragma once

#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <string>
#include <system_error>
#include <thread>

#include "ate/util/result.hpp"
#include "net/rtnetlink.hpp"

/// The requests that both kinds of links are made with.
namespace ate::net {

inline constexpr int kLoopbackIndex = 1;

/// Runs `work` on a thread of its own, which may change its network namespace and ends there.
template <class T>
Result<T> on_own_thread(std::function<Result<T>()> work) {
  Result<T> result = fail(Errc::Internal, "not run");
  try {
    std::thread thread([&] { result = work(); });
    thread.join();
  } catch (const std::system_error& error) {
    return fail(Error::from_errno("start a thread", error.code().value()));
  }
  return result;
}

enum class LinkState : std::uint8_t { Down, Up };

[[nodiscard]] in_addr to_address(const char* text);
[[nodiscard]] ifinfomsg link_header(int index, LinkState state);
void set_up(NetlinkBatch& batch, int index, const char* name);
void add_address(NetlinkBatch& batch, int index, const in_addr& address, int prefix_length);
void add_default_route(NetlinkBatch& batch, int index, const in_addr& gateway);

/// Until the kernel's link watch has run, a veth whose other end has just come up drops what is
/// sent, and a lost SYN costs a second. ETHTOOL_GLINK makes it run on newer kernels; elsewhere it
/// is a matter of microseconds.
[[nodiscard]] Status settle_link(const UniqueFd& socket, const char* name);

}  // namespace ate::net
