// Requests per second of our server, answering from memory, against a bare Beast server that does
// nothing else: same body, same unix sockets, same load, same run. Prints the ratio; the budget is
// 0.4 (docs/performance.md). With `SOCKET TARGET...` the same for GETs of a running daemon
// (tests/bench/reads.py).
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ate/http/server.hpp"
#include "support/temp_dir.hpp"

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Local = asio::local::stream_protocol;
using std::chrono::steady_clock;

constexpr double kBudget = 0.4;
constexpr int kConnections = 16;
constexpr int kRounds = 5;
constexpr std::chrono::milliseconds kRoundTime(600);
constexpr const char* kTarget = "/v1/actors/c1";
const std::string kBody(512, 'x');

ate::async::Task<ate::Status> answer(ate::http::Exchange& exchange) {
  ate::http::Response response;
  response.body = kBody;
  co_return co_await exchange.respond(std::move(response));
}

asio::awaitable<void> bare_session(Local::socket socket) {
  constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
  boost::beast::flat_buffer buffer;
  for (;;) {
    http::request<http::string_body> request;
    const auto read = co_await http::async_read(socket, buffer, request, kTuple);
    if (std::get<0>(read)) {
      co_return;
    }
    http::response<http::string_body> response(http::status::ok, 11);
    response.set(http::field::content_type, "application/json");
    response.keep_alive(request.keep_alive());
    response.body() = kBody;
    response.prepare_payload();
    const auto written = co_await http::async_write(socket, response, kTuple);
    if (std::get<0>(written)) {
      co_return;
    }
  }
}

asio::awaitable<void> bare_accept(Local::acceptor& acceptor) {
  constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
  for (;;) {
    std::tuple<boost::system::error_code, Local::socket> accepted =
        co_await acceptor.async_accept(kTuple);
    if (std::get<0>(accepted)) {
      co_return;
    }
    asio::awaitable<void> session = bare_session(std::move(std::get<1>(accepted)));
    asio::co_spawn(acceptor.get_executor(), std::move(session), [](std::exception_ptr) {});
  }
}

int connect_to(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    std::perror("connect");
    std::exit(1);
  }
  return fd;
}

std::string request_of(const std::string& target) {
  return "GET " + target +
         " HTTP/1.1\r\nHost: ate\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n";
}

/// Requests per second with kConnections clients, each with one request under way.
double load(const std::string& path, const std::string& target) {
  const std::string request = request_of(target);
  std::vector<pollfd> clients;
  for (int i = 0; i < kConnections; ++i) {
    clients.push_back(pollfd{connect_to(path), POLLIN, 0});
    static_cast<void>(::send(clients.back().fd, request.data(), request.size(), MSG_NOSIGNAL));
  }
  std::uint64_t done = 0;
  const auto begin = steady_clock::now();
  const auto end = begin + kRoundTime;
  std::array<char, 4096> room{};
  while (steady_clock::now() < end) {
    static_cast<void>(::poll(clients.data(), clients.size(), 1000));
    for (const pollfd& client : clients) {
      // Small replies come in one piece.
      if ((client.revents & POLLIN) != 0 && ::recv(client.fd, room.data(), room.size(), 0) > 0) {
        ++done;
        static_cast<void>(::send(client.fd, request.data(), request.size(), MSG_NOSIGNAL));
      }
    }
  }
  const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  for (const pollfd& client : clients) {
    ::close(client.fd);
  }
  return static_cast<double>(done) / seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

/// Rounds of `ours` and `bare` by turns.
bool compare(const std::string& ours, const std::string& bare, const std::string& target,
             const std::string& what) {
  std::vector<double> ours_rates;
  std::vector<double> bare_rates;
  for (int round = 0; round < kRounds; ++round) {
    bare_rates.push_back(load(bare, target));
    ours_rates.push_back(load(ours, target));
  }
  const double ratio = median(ours_rates) / median(bare_rates);
  std::printf("%s: ours %.0f/s, bare Beast %.0f/s, ratio %.2f (budget %.2f)\n", what.c_str(),
              median(ours_rates), median(bare_rates), ratio, kBudget);
  return ratio >= kBudget;
}

/// The target must answer 200 in one piece, else its rate says nothing.
bool answers(const std::string& path, const std::string& target) {
  const int fd = connect_to(path);
  const std::string request = request_of(target);
  static_cast<void>(::send(fd, request.data(), request.size(), MSG_NOSIGNAL));
  std::array<char, 4096> room{};
  const ssize_t got = ::recv(fd, room.data(), room.size(), 0);
  ::close(fd);
  const bool good = got > 0 && std::string(room.data(), 12) == "HTTP/1.1 200";
  if (!good) {
    std::fprintf(stderr, "%s does not answer 200\n", target.c_str());
  }
  return good;
}

bool measure_daemon(const std::string& socket, const std::string& bare,
                    const std::vector<std::string>& targets) {
  bool good = true;
  for (const std::string& target : targets) {
    good = answers(socket, target) && compare(socket, bare, target, "GET " + target) && good;
  }
  return good;
}

int main(int argc, char** argv) {
  const ate::test::TempDir directory;
  const std::string ours = directory.file("ours");
  const std::string bare = directory.file("bare");
  asio::io_context loop(1);
  asio::thread_pool pool(1);
  ate::async::Context context{loop, pool};
  ate::http::Server server(
      context, ate::http::Limits(), answer,
      [](const ate::Error&, const ate::http::Request*) { return ate::http::Response(); },
      [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); });
  ate::Result<ate::UniqueFd> listener = ate::http::listen_unix(ours, 0600, ::getegid());
  if (!listener) {
    std::fprintf(stderr, "%s\n", listener.error().message().c_str());
    return 1;
  }
  asio::co_spawn(loop, server.serve(std::move(*listener)), [](std::exception_ptr) {});
  Local::acceptor acceptor(loop, Local::endpoint(bare));
  asio::co_spawn(loop, bare_accept(acceptor), [](std::exception_ptr) {});
  // One loop serves both, so that neither has a core to itself.
  std::thread thread([&]() { loop.run(); });

  const bool good =
      argc > 2 ? measure_daemon(argv[1], bare, std::vector<std::string>(argv + 2, argv + argc))
               : compare(ours, bare, kTarget, "http GET from memory");
  asio::co_spawn(loop, server.stop(std::chrono::milliseconds(100)),
                 [&](std::exception_ptr) { acceptor.close(); });
  thread.join();
  return good ? 0 : 1;
}
