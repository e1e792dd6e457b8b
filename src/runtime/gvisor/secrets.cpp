#include "runtime/gvisor/secrets.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "ate/os/fs.hpp"
#include "ate/util/log.hpp"

namespace ate::runtime::gvisor {
namespace {

constexpr std::size_t kSecretLimit = 64 * 1024;

std::unexpected<Error> unusable(const std::string& path, const std::string& what) {
  return fail(Errc::SecretUnusable, "secret file " + escape_text(path, 300) + " " + what);
}

/// Nobody but root (or we) may have written it, and not everyone may read it.
Status check_owner(const struct stat& info, const std::string& path) {
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return unusable(path,
                    "belongs to uid " + std::to_string(info.st_uid) + "; run `chown root` on it");
  }
  if ((info.st_mode & 027U) != 0) {
    return unusable(path,
                    "can be written by its group or read or written by others; run `chmod 0600` "
                    "or `chmod 0640` on it");
  }
  return {};
}

Status check_directory(const UniqueFd& directory, const std::string& path) {
  struct stat info{};
  if (::fstat(directory.get(), &info) != 0) {
    return unusable(path, "can't be looked at");
  }
  if ((info.st_uid != 0 && info.st_uid != ::geteuid()) || (info.st_mode & 022U) != 0) {
    return unusable(path,
                    "is in a directory that others than root may write to; run `chown root` and "
                    "`chmod go-w` on spec.secretsDir of the NodeConfig");
  }
  return {};
}

}  // namespace

Result<std::string> read_secret(const std::string& directory, const std::string& path) {
  const std::string below = directory + "/";
  if (!path.starts_with(below)) {
    return unusable(path, "is not below " + directory + ", spec.secretsDir of the NodeConfig");
  }
  Result<UniqueFd> base = os::open_dir(directory);
  if (!base) {
    return unusable(path, "can't be read: " + base.error().message());
  }
  ATE_TRY(check_directory(*base, path));
  // O_NONBLOCK: a FIFO must not hang us. No symbolic link, so nothing else than it says.
  Result<UniqueFd> file =
      os::open_beneath(*base, path.substr(below.size()), O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
  if (!file) {
    return unusable(path, file.error().sys_errno() == ELOOP
                              ? std::string("leads through a symbolic link")
                              : "can't be read: " + file.error().message());
  }
  struct stat info{};
  if (::fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return unusable(path, "is not a regular file");
  }
  ATE_TRY(check_owner(info, path));
  Result<std::string> text = os::read_descriptor(file->get(), kSecretLimit, path);
  if (!text) {
    return unusable(path, text.error().code() == Errc::InvalidValue
                              ? std::string("has more than 65536 bytes")
                              : "can't be read: " + text.error().message());
  }
  if (text->ends_with('\n')) {
    text->pop_back();
  }
  if (text->find('\0') != std::string::npos) {
    return unusable(path, "holds a NUL byte, which no environment variable can");
  }
  return text;
}

}  // namespace ate::runtime::gvisor
