#include "runtime/gvisor/control_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <utility>

#include "ate/core/json.hpp"
#include "ate/util/fd.hpp"
#include "ate/util/log.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr std::size_t kAnswerLimit = std::size_t{4} << 20U;  // a list of many processes

Result<UniqueFd> connect(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!socket) {
    return fail(Error::from_errno("socket", errno));
  }
  if (path.size() >= sizeof address.sun_path) {
    return fail(Errc::Internal, "the path of a sandbox's socket is too long: " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(Error::from_errno("connecting to the sandbox", errno, Errc::RuntimeFailed));
  }
  return socket;
}

/// A whole JSON object, as far as the braces outside of texts tell.
bool complete(const std::string& text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      i += text[i] == '\\' ? 1 : 0;
      quoted = i >= text.size() || text[i] != '"';
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return true;
    }
  }
  return false;
}

async::Task<Result<std::string>> read_object(const UniqueFd& socket) {
  std::string text;
  while (!complete(text)) {
    const Status readable = co_await async::wait_readable(socket.get());
    ATE_CO_TRY(readable);
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(socket.get(), buffer.data(), buffer.size());
    if (got == 0) {
      co_return fail(Errc::RuntimeFailed, "the sandbox closed its socket");
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      co_return fail(Error::from_errno("reading from the sandbox", errno, Errc::RuntimeFailed));
    }
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    if (text.size() > kAnswerLimit) {
      co_return fail(Errc::RuntimeFailed, "the sandbox answers without end");
    }
  }
  co_return text;
}

/// `argument` is JSON.
async::Task<Result<core::JsonValue>> call(std::string path, std::string method,
                                          std::string argument) {
  ATE_CO_ASSIGN(const UniqueFd socket, connect(path));
  const std::string request = R"({"method":)" + core::json_quote("containerManager." + method) +
                              R"(,"arg":)" + argument + "}";
  // A few bytes into an empty buffer.
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    co_return fail(Error::from_errno("asking the sandbox", errno, Errc::RuntimeFailed));
  }
  ATE_CO_ASSIGN(const std::string answer, co_await read_object(socket));
  co_return read_answer(answer);
}

}  // namespace

Result<core::JsonValue> read_answer(const std::string& text) {
  const core::JsonLimits limits{.bytes = kAnswerLimit};
  std::expected<core::JsonValue, core::JsonFault> root = core::parse_json(text, limits);
  const core::JsonValue* success = root ? root->find("success") : nullptr;
  if (success == nullptr) {
    return fail(Errc::RuntimeFailed, "the sandbox's answer was not understood");
  }
  if (!success->as_bool().value_or(false)) {
    const core::JsonValue* error = root->find("err");
    const std::string* words = error == nullptr ? nullptr : error->as_text();
    return fail(Errc::RuntimeFailed,
                "the sandbox said: " + escape_text(words == nullptr ? "" : *words, 512));
  }
  const core::JsonValue* result = root->find("result");
  return result == nullptr ? core::JsonValue{} : *result;
}

std::int64_t command_number(const std::vector<GuestProcess>& all, std::int64_t pid,
                            std::vector<std::int64_t> others) {
  std::vector<std::int64_t> parentless;
  for (const GuestProcess& process : all) {
    if (process.parent == 0) {
      parentless.push_back(process.pid);
    }
  }
  std::ranges::sort(parentless);
  // The first is the container's own.
  if (parentless.size() != others.size() + 2) {
    return 0;
  }
  others.push_back(pid);
  std::ranges::sort(others);
  const auto place = std::ranges::find(others, pid) - others.begin();
  return parentless[static_cast<std::size_t>(place) + 1];
}

std::vector<std::int64_t> process_tree(const std::vector<GuestProcess>& all, std::int64_t pid) {
  std::vector<std::int64_t> tree{pid};
  const auto known = [&tree](std::int64_t number) {
    return std::ranges::find(tree, number) != tree.end();
  };
  for (bool grown = true; grown;) {
    grown = false;
    for (const GuestProcess& process : all) {
      if (!known(process.pid) && (known(process.parent) || process.group == pid)) {
        tree.push_back(process.pid);
        grown = true;
      }
    }
  }
  return tree;
}

async::Task<Result<std::uint32_t>> wait_container(std::string socket, std::string id) {
  const Result<core::JsonValue> status =
      co_await call(std::move(socket), "Wait", core::json_quote(id));
  ATE_CO_TRY(status);
  const std::optional<std::int64_t> number = status->as_integer();
  if (!number) {
    co_return fail(Errc::RuntimeFailed, "the sandbox told no wait status");
  }
  co_return static_cast<std::uint32_t>(*number);
}

async::Task<Result<bool>> container_ended(std::string socket, std::string id,
                                          std::chrono::milliseconds limit) {
  constexpr std::int64_t kStopped = 3;
  const Result<core::JsonValue> state = co_await async::with_deadline(
      limit, "asking the sandbox for a container",
      call(std::move(socket), "ContainerRuntimeState", core::json_quote(id)));
  ATE_CO_TRY(state);
  co_return state->as_integer() == kStopped;
}

namespace {

constexpr std::chrono::seconds kControl(5);

std::int64_t member(const core::JsonValue& object, const char* key) {
  const core::JsonValue* value = object.find(key);
  return value == nullptr ? 0 : value->as_integer().value_or(0);
}

async::Task<Result<std::vector<GuestProcess>>> list_processes(std::string socket, std::string id) {
  const Result<core::JsonValue> listed =
      co_await async::with_deadline(kControl, "asking the sandbox for its processes",
                                    call(std::move(socket), "Processes", core::json_quote(id)));
  ATE_CO_TRY(listed);
  std::vector<GuestProcess> all;
  for (const core::JsonValue& line : listed->items) {
    all.push_back({.pid = member(line, "pid"),
                   .parent = member(line, "ppid"),
                   .group = member(line, "pgid")});
  }
  co_return all;
}

async::Task<void> send_signal(std::string socket, std::string id, std::int64_t pid, int signo) {
  core::JsonObject argument;
  argument.text("CID", id).number("Signo", signo).number("PID", pid).number("Mode", 0);
  const Result<core::JsonValue> sent = co_await async::with_deadline(
      kControl, "signalling a process",
      call(std::move(socket), "Signal", std::move(argument).finish()));
  static_cast<void>(sent);  // IGNORED: it may have ended meanwhile
}

}  // namespace

async::Task<Status> kill_process_tree(std::string socket, std::string id, std::int64_t pid,
                                      std::vector<std::int64_t> others) {
  constexpr int kRounds = 4;
  std::set<std::int64_t> stopped;
  // Stopped first, all of it: what stands still makes no more children, and who has its parent can
  // still be found.
  for (int round = 0; round < kRounds; ++round) {
    const Result<std::vector<GuestProcess>> all = co_await list_processes(socket, id);
    ATE_CO_TRY(all);
    const std::int64_t root = command_number(*all, pid, others);
    const std::size_t before = stopped.size();
    const std::vector<std::int64_t> tree =
        root == 0 ? std::vector<std::int64_t>{} : process_tree(*all, root);
    for (const std::int64_t one : tree) {
      // A signal looks for commands by their number in the container first: never one of those.
      const bool another = one != root && std::ranges::find(others, one) != others.end();
      if (!another && stopped.insert(one).second) {
        co_await send_signal(socket, id, one == root ? pid : one, SIGSTOP);
      }
    }
    if (before == stopped.size()) {
      break;
    }
  }
  const Result<std::vector<GuestProcess>> all = co_await list_processes(socket, id);
  ATE_CO_TRY(all);
  const std::int64_t root = command_number(*all, pid, others);
  for (const std::int64_t one : stopped) {
    if (one != root) {
      co_await send_signal(socket, id, one, SIGKILL);
    }
  }
  co_await send_signal(socket, id, pid, SIGKILL);
  co_return Status{};
}

}  // namespace ate::runtime::gvisor
