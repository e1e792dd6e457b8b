#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ate::net {

/// DNS messages over a TCP connection: each behind its length. Holds one message each way.
class DnsStream {
 public:
  enum class Got : std::uint8_t { Nothing, Message, End };

  /// Queues a message; work() sends it.
  void put(std::string_view message);
  /// Sends and receives what goes now. After Message, message() is it, until next().
  [[nodiscard]] Got work(int fd, std::size_t limit);

  [[nodiscard]] std::string_view message() const;
  /// Drops the message that was taken.
  void next();

  [[nodiscard]] bool flushed() const { return out_.empty(); }

 private:
  [[nodiscard]] std::size_t wanted() const;

  std::string in_;
  std::string out_;
};

}  // namespace ate::net
