#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ate/http/server.hpp"
#include "ate/util/ids.hpp"
#include "ate/util/scope_exit.hpp"

namespace ate::http {

namespace {

constexpr std::size_t kMaxPath = 107;
constexpr int kBacklog = 1024;

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > kMaxPath) {
    return fail(Errc::InvalidValue, "socket path '" + path + "' is longer than 107 bytes or empty");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) noexcept {
  return reinterpret_cast<const sockaddr*>(&address);
}

UniqueFd stream_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Ok when `path` may be replaced: nothing there, or a socket that nobody answers on.
Status check_replaceable(const std::string& path, const sockaddr_un& address) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Status() : fail(Error::from_errno("look at " + path, errno));
  }
  if (!S_ISSOCK(info.st_mode)) {
    return fail(Errc::AlreadyExists, path + " exists and is not a socket");
  }
  const UniqueFd probe = stream_socket();
  if (!probe) {
    return fail(Error::from_errno("create a socket", errno));
  }
  if (::connect(probe.get(), generic(address), sizeof address) == 0 || errno != ECONNREFUSED) {
    return fail(Errc::AlreadyExists, path + " is served by another process");
  }
  return {};
}

/// The directory of `path`, opened; refused when everybody may replace what is in it.
Result<UniqueFd> open_parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  UniqueFd directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info{};
  if (!directory || ::fstat(directory.get(), &info) != 0) {
    return fail(Error::from_errno("open directory " + parent, errno));
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return fail(Errc::InvalidValue,
                "directory " + parent + " of the socket is writable by everyone");
  }
  return directory;
}

}  // namespace

Result<UniqueFd> listen_unix(const std::string& path, mode_t mode, gid_t group) {
  ATE_ASSIGN(const sockaddr_un address, address_of(path));
  ATE_ASSIGN(const UniqueFd directory, open_parent(path));
  ATE_TRY(check_replaceable(path, address));
  UniqueFd listener = stream_socket();
  if (!listener) {
    return fail(Error::from_errno("create a socket", errno));
  }
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string temporary = ".ate-" + random_hex(8);
  // Through the directory's descriptor the temporary name always fits into an address.
  ATE_ASSIGN(const sockaddr_un bound,
             address_of("/proc/self/fd/" + std::to_string(directory.get()) + "/" + temporary));
  if (::bind(listener.get(), generic(bound), sizeof bound) != 0) {
    return fail(Error::from_errno("bind " + path, errno));
  }
  ScopeExit remove([&] { static_cast<void>(::unlinkat(directory.get(), temporary.c_str(), 0)); });
  // Nobody can connect before listen, and nobody finds the name before the rename.
  const int at = directory.get();
  if (::fchownat(at, temporary.c_str(), static_cast<uid_t>(-1), group, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::fchmodat(at, temporary.c_str(), mode, 0) != 0) {
    return fail(Error::from_errno("set owner and mode of " + path, errno));
  }
  if (::listen(listener.get(), kBacklog) != 0) {
    return fail(Error::from_errno("listen on " + path, errno));
  }
  if (::renameat(at, temporary.c_str(), at, name.c_str()) != 0) {
    return fail(Error::from_errno("rename to " + path, errno));
  }
  remove.dismiss();
  return listener;
}

}  // namespace ate::http
