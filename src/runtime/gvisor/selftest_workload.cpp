// What the self-test runs inside the sandbox.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>

#include "ate/runtime/selftest.hpp"
#include "ate/util/fd.hpp"

namespace ate::runtime {

namespace {

bool send_count(int client, unsigned long count) {
  std::array<char, 32> text{};
  const int length = std::snprintf(text.data(), text.size(), "%lu\n", count);
  return length > 0 && ::send(client, text.data(), static_cast<std::size_t>(length),
                              MSG_NOSIGNAL) == static_cast<ssize_t>(length);
}

}  // namespace

int selftest_workload_main() {
  constexpr std::uint16_t kPort = 7;
  constexpr int kBacklog = 16;
  constexpr int kFailure = 70;
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  if (!listener ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), kBacklog) != 0) {
    std::perror("selftest-workload");
    return kFailure;
  }
  // The count lives in memory only: whoever hears 2 after a restore knows that memory came back.
  for (unsigned long count = 1;;) {
    const UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client && send_count(client.get(), count)) {
      ++count;
    }
  }
}

}  // namespace ate::runtime
