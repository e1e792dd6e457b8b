#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::net {

/// Several rtnetlink requests that are sent with one system call and acknowledged one by one.
class NetlinkBatch {
 public:
  /// Begins a request; `what` names it in an error.
  void begin(std::uint16_t type, std::uint16_t flags, std::string what);

  /// The fixed header that follows nlmsghdr (ifinfomsg, ifaddrmsg, ...), or a nested one.
  template <class T>
  void put(const T& header) {
    append(&header, sizeof header);
  }

  void attribute(std::uint16_t type, const void* data, std::size_t size);
  void attribute(std::uint16_t type, std::string_view text);  // with its terminator
  void attribute(std::uint16_t type, std::uint32_t value);
  /// Opens a nested attribute and returns where it is; closed by end_nested, innermost first.
  [[nodiscard]] std::size_t begin_nested(std::uint16_t type);
  void end_nested(std::size_t at);

 private:
  friend Status transact(const UniqueFd& socket, NetlinkBatch& batch);
  friend Status query(const UniqueFd& socket, NetlinkBatch& batch, std::string& answer);
  void append(const void* data, std::size_t size);
  void close_request();

  std::vector<unsigned char> bytes_;
  std::vector<std::string> names_;
  std::size_t request_ = 0;  // where the open request begins
};

/// A NETLINK_ROUTE socket of the network namespace that the calling thread is in; it stays there
/// when the thread goes elsewhere.
[[nodiscard]] Result<UniqueFd> open_rtnetlink();

/// Sends the one request of `batch` and gives the payload of the first message of its answer.
[[nodiscard]] Status query(const UniqueFd& socket, NetlinkBatch& batch, std::string& answer);

/// Sends all requests and waits for all acknowledgements. The first one refused is the error.
[[nodiscard]] Status transact(const UniqueFd& socket, NetlinkBatch& batch);

}  // namespace ate::net
