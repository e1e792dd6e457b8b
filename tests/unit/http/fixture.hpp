#pragma once

#include <fcntl.h>
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ate/async/task.hpp"
#include "ate/http/server.hpp"
#include "support/temp_dir.hpp"

namespace ate::test {

/// What a raw client got.
struct Reply {
  int status = 0;
  std::string head;       // status line and headers
  std::string body;       // decoded
  bool complete = false;  // by its own framing
  bool closed = false;    // the server ended the connection after it

  [[nodiscard]] std::string header(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const;
};

/// A blocking raw socket with a time limit of 5 s per call.
class Client {
 public:
  explicit Client(UniqueFd fd);
  static Client connect(const std::string& path);

  /// Sends all, or as much as goes before the peer closes: bytes sent.
  std::size_t send(std::string_view bytes);
  /// Reads once; empty at the end of the stream or on an error.
  std::string read_some();
  std::string read_all();
  /// The next final reply (1xx are skipped); `head_request`: it has no body.
  Reply reply(bool head_request);

  Reply reply() { return reply(false); }

  /// Waits for `text` to arrive and returns everything up to and with it.
  std::string read_until(std::string_view text);
  /// True when the peer closes (nothing but the end comes).
  bool closed();
  void shut_down_sending();

  void close() { fd_.reset(); }

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::string buffer_;
};

/// A server on a thread and a loop of its own; tests talk to it with blocking sockets.
class TestServer {
 public:
  TestServer(http::Limits limits, http::Handler handler);
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  TestServer(TestServer&&) = delete;
  TestServer& operator=(TestServer&&) = delete;

  [[nodiscard]] Client connect() const { return Client::connect(path_); }

  /// Begins stop(grace); the future is ready when it has ended.
  std::future<void> stop(std::chrono::milliseconds grace);
  [[nodiscard]] std::size_t connections();
  std::vector<std::string> troubles();

  [[nodiscard]] async::Context& context() { return context_; }

 private:
  TempDir directory_;
  std::string path_;
  boost::asio::thread_pool pool_{1};
  boost::asio::io_context loop_{1};
  async::Context context_{loop_, pool_};
  std::mutex mutex_;
  std::vector<std::string> troubles_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
  std::optional<std::shared_future<void>> stopped_;
};

/// Connected pair of unix stream sockets.
std::pair<UniqueFd, UniqueFd> socket_pair();

/// Status per error kind as the tests expect it, the message as the body.
http::Response render(const Error& error, const http::Request* request);

/// Resident memory of this process in bytes; always 0 under AddressSanitizer, which keeps freed
/// memory for a while.
std::size_t resident_bytes();

/// Leaves this process one free descriptor, for the test's own end of a connection.
class DescriptorShortage {
 public:
  DescriptorShortage() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit low{64, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
    for (UniqueFd fd = open_one(); fd; fd = open_one()) {
      hoard_.push_back(std::move(fd));
    }
    hoard_.pop_back();
  }

  ~DescriptorShortage() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  DescriptorShortage(const DescriptorShortage&) = delete;
  DescriptorShortage& operator=(const DescriptorShortage&) = delete;
  DescriptorShortage(DescriptorShortage&&) = delete;
  DescriptorShortage& operator=(DescriptorShortage&&) = delete;

 private:
  static UniqueFd open_one() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  rlimit before_{};
  std::vector<UniqueFd> hoard_;
};

/// Polls `condition` until it holds; false after 5 s. For states that no event tells of.
bool eventually(const std::function<bool()>& condition);

}  // namespace ate::test
