#include "fixture.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>

// GCC before 14 has no __has_feature.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif

namespace ate::test {

namespace {

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<std::string> find(const std::string& head, std::string_view name) {
  std::size_t at = head.find("\r\n");
  while (at != std::string::npos && at + 2 < head.size()) {
    const std::size_t begin = at + 2;
    const std::size_t end = head.find("\r\n", begin);
    const std::string line = head.substr(begin, end - begin);
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && same(std::string_view(line).substr(0, colon), name)) {
      return line.substr(colon + 2);
    }
    at = end;
  }
  return std::nullopt;
}

void expect(bool condition, const char* what) {
  if (!condition) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  }
}

}  // namespace

std::string Reply::header(std::string_view name) const {
  return find(head, name).value_or("");
}

bool Reply::has(std::string_view name) const {
  return find(head, name).has_value();
}

Client::Client(UniqueFd fd) : fd_(std::move(fd)) {
  const timeval limit{5, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Client Client::connect(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  expect(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
         "connect");
  return Client(std::move(fd));
}

std::size_t Client::send(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent <= 0) {
      break;
    }
    done += static_cast<std::size_t>(sent);
  }
  return done;
}

std::string Client::read_some() {
  if (!buffer_.empty()) {
    return std::exchange(buffer_, {});
  }
  std::array<char, 65536> room;
  const ssize_t got = ::recv(fd_.get(), room.data(), room.size(), 0);
  return got > 0 ? std::string(room.data(), static_cast<std::size_t>(got)) : std::string();
}

std::string Client::read_all() {
  std::string all;
  for (std::string piece = read_some(); !piece.empty(); piece = read_some()) {
    all += piece;
  }
  return all;
}

std::string Client::read_until(std::string_view text) {
  std::string all;
  for (;;) {
    const std::size_t at = all.find(text);
    if (at != std::string::npos) {
      buffer_ = all.substr(at + text.size()) + buffer_;
      return all.substr(0, at + text.size());
    }
    const std::string piece = read_some();
    if (piece.empty()) {
      return all;
    }
    all += piece;
  }
}

Reply Client::reply(bool head_request) {
  Reply reply;
  do {
    reply.head = read_until("\r\n\r\n");
    if (!reply.head.ends_with("\r\n\r\n") || reply.head.size() < 12) {
      reply.closed = true;
      return reply;
    }
    reply.status = std::stoi(reply.head.substr(9, 3));
  } while (reply.status < 200);
  if (head_request || reply.status == 204 || reply.status == 304) {
    reply.complete = true;
  } else if (same(reply.header("transfer-encoding"), "chunked")) {
    for (;;) {
      const std::string line = read_until("\r\n");
      if (!line.ends_with("\r\n")) {
        return reply;
      }
      const std::size_t size = std::stoul(line, nullptr, 16);
      std::string data;
      while (data.size() < size + 2) {
        const std::string piece = read_some();
        if (piece.empty()) {
          reply.body += data;
          return reply;
        }
        data += piece;
      }
      buffer_ = data.substr(size + 2) + buffer_;
      reply.body += data.substr(0, size);
      if (size == 0) {
        reply.complete = true;
        break;
      }
    }
  } else if (reply.has("content-length")) {
    const std::size_t size = std::stoul(reply.header("content-length"));
    while (reply.body.size() < size) {
      const std::string piece = read_some();
      if (piece.empty()) {
        return reply;
      }
      reply.body += piece;
    }
    buffer_ = reply.body.substr(size) + buffer_;
    reply.body.resize(size);
    reply.complete = true;
  } else {
    reply.body = read_all();
    reply.complete = true;
    reply.closed = true;
  }
  return reply;
}

bool Client::closed() {
  pollfd entry{fd_.get(), POLLIN, 0};
  if (::poll(&entry, 1, 5000) <= 0) {
    return false;
  }
  return read_some().empty();
}

void Client::shut_down_sending() {
  ::shutdown(fd_.get(), SHUT_WR);
}

TestServer::TestServer(http::Limits limits, http::Handler handler) : path_(directory_.file("s")) {
  Result<UniqueFd> listener = http::listen_unix(path_, 0600, ::getegid());
  if (!listener) {
    throw std::runtime_error(listener.error().message());
  }
  server_ = std::make_unique<http::Server>(context_, limits, std::move(handler), render,
                                           [this](const std::string& what) {
                                             const std::lock_guard<std::mutex> lock(mutex_);
                                             troubles_.push_back(what);
                                           });
  boost::asio::co_spawn(loop_, server_->serve(std::move(*listener)), [](std::exception_ptr) {});
  thread_ = std::thread([this]() { loop_.run(); });
}

TestServer::~TestServer() {
  if (!stopped_.has_value()) {
    static_cast<void>(stop(std::chrono::milliseconds(0)));
  }
  stopped_->wait();
  thread_.join();
}

std::future<void> TestServer::stop(std::chrono::milliseconds grace) {
  auto done = std::make_shared<std::promise<void>>();
  stopped_ = done->get_future().share();
  boost::asio::co_spawn(loop_, server_->stop(grace),
                        [done](std::exception_ptr) { done->set_value(); });
  return std::async(std::launch::deferred, [wait = *stopped_]() { wait.wait(); });
}

std::size_t TestServer::connections() {
  std::promise<std::size_t> count;
  std::future<std::size_t> result = count.get_future();
  boost::asio::post(loop_, [&]() { count.set_value(server_->connections()); });
  return result.get();
}

std::vector<std::string> TestServer::troubles() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return troubles_;
}

std::pair<UniqueFd, UniqueFd> socket_pair() {
  std::array<int, 2> fds{};
  expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
  return {UniqueFd(std::move(fds[0])), UniqueFd(std::move(fds[1]))};
}

http::Response render(const Error& error, const http::Request* request) {
  http::Response response;
  response.content_type = "text/plain";
  response.body = error.message();
  response.headers.emplace_back("X-Request", request == nullptr ? "none" : request->target);
  switch (error.code()) {
    case Errc::Malformed:
      response.status = 400;
      break;
    case Errc::RequestTimeout:
      response.status = 408;
      break;
    case Errc::BodyTooLarge:
      response.status = 413;
      break;
    case Errc::HeaderTooLarge:
      response.status = 431;
      break;
    case Errc::NotYetSupported:
      response.status = 422;
      break;
    case Errc::UpstreamFailed:
      response.status = 502;
      break;
    case Errc::TooManyConnections:
      response.status = 503;
      break;
    case Errc::NotFound:
      response.status = 404;
      break;
    default:
      response.status = 500;
      break;
  }
  return response;
}

std::size_t resident_bytes() {
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
  return 0;
#else
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
#endif
}

bool eventually(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

}  // namespace ate::test
