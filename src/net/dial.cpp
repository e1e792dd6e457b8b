#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "ate/net/netns.hpp"
#include "net/pair.hpp"

namespace ate::net {

namespace {

Error dial_error(std::uint16_t port, int err) {
  return Error::from_errno("connect to port " + std::to_string(port) + " of the actor", err,
                           Errc::UpstreamFailed);
}

async::Task<Result<UniqueFd>> connect(UniqueFd socket, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  static_cast<void>(::inet_pton(AF_INET, kActorAddress, &address.sin_addr));
  const int started =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (started != 0 && errno != EINPROGRESS) {
    co_return fail(dial_error(port, errno));
  }
  if (started != 0) {
    ATE_CO_TRY(co_await async::wait_writable(socket.get()));
    int err = 0;
    socklen_t size = sizeof err;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &err, &size) != 0) {
      err = errno;
    }
    if (err != 0) {
      co_return fail(dial_error(port, err));
    }
  }
  co_return std::move(socket);
}

}  // namespace

async::Task<Result<UniqueFd>> dial(async::Context& /*context*/, NetnsPair pair, std::uint16_t port,
                                   std::chrono::milliseconds timeout) {
  if (pair.router == nullptr || !*pair.router) {
    co_return fail(Errc::UpstreamFailed, "the actor has no network");
  }
  std::string what = "connect to port " + std::to_string(port) + " of the actor";
  ATE_CO_ASSIGN(UniqueFd fresh, make_socket_in(pair.router->get(), SOCK_STREAM));
  async::Task<Result<UniqueFd>> work = connect(std::move(fresh), port);
  Result<UniqueFd> socket =
      co_await async::with_deadline<UniqueFd>(timeout, std::move(what), std::move(work));
  co_return socket;
}

}  // namespace ate::net
