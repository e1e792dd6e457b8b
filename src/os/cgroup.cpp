#include "ate/os/cgroup.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "ate/os/fs.hpp"
#include "ate/os/mount.hpp"

namespace ate::os {

namespace {

constexpr std::size_t kControlFileLimit = 1024UL * 1024;
// cgroup.procs of a worker with its pids.max at the kernel's maximum.
constexpr std::size_t kProcsLimit = 64UL * 1024 * 1024;

Result<UniqueFd> open_directory_at(int dir, const std::string& name, const std::string& path) {
  UniqueFd fd(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    const Errc code = errno == ENOENT ? Errc::NotFound : Errc::Internal;
    return fail(Error::from_errno("open cgroup " + path, errno, code));
  }
  return fd;
}

template <class T, class Convert>
std::vector<T> split(std::string_view text, std::string_view separators, Convert convert) {
  std::vector<T> out;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(separators);
    if (end != 0) {
      out.push_back(convert(text.substr(0, end)));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

pid_t to_pid(std::string_view text) {
  pid_t pid = 0;
  // IGNORED: the kernel writes numbers only; 0 stands for one outside our pid namespace.
  static_cast<void>(std::from_chars(text.data(), text.data() + text.size(), pid));
  return pid;
}

Status check_name(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    return fail(Errc::Internal, "not a cgroup name: '" + name + "'");
  }
  return {};
}

Error remove_error(const std::string& path, int err) {
  return Error::from_errno("remove cgroup " + path, err,
                           err == EBUSY || err == ENOTEMPTY ? Errc::InUse : Errc::Internal);
}

}  // namespace

Result<Cgroup> Cgroup::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    const Errc code = errno == ENOENT ? Errc::NotFound : Errc::Internal;
    return fail(Error::from_errno("open cgroup " + path, errno, code));
  }
  return Cgroup(path, std::move(fd));
}

Result<std::string> Cgroup::read(const std::string& file) const {
  const UniqueFd fd(::openat(dir_.get(), file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const std::string name = path_ + "/" + file;
  if (!fd) {
    // ENODEV: the directory is open but has been removed.
    const Errc code = errno == ENOENT || errno == ENODEV ? Errc::NotFound : Errc::Internal;
    return fail(Error::from_errno("open " + name, errno, code));
  }
  return read_descriptor(fd.get(), file == "cgroup.procs" ? kProcsLimit : kControlFileLimit, name);
}

Status Cgroup::write(const std::string& file, const std::string& value) const {
  const UniqueFd fd(::openat(dir_.get(), file.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  const std::string name = path_ + "/" + file;
  if (!fd) {
    const Errc code = errno == ENOENT || errno == ENODEV ? Errc::NotFound : Errc::Internal;
    return fail(Error::from_errno("open " + name, errno, code));
  }
  // One write: the kernel takes each as a whole command.
  if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
    return fail(Error::from_errno("write '" + value + "' to " + name, errno));
  }
  return {};
}

Result<std::vector<std::string>> Cgroup::controllers() const {
  ATE_ASSIGN(const std::string text, read("cgroup.controllers"));
  return split<std::string>(text, " \n", [](std::string_view word) { return std::string(word); });
}

Status Cgroup::enable(const std::vector<std::string>& controllers) const {
  std::string command;
  for (const std::string& name : controllers) {
    command += (command.empty() ? "+" : " +") + name;
  }
  return command.empty() ? Status{} : write("cgroup.subtree_control", command);
}

Result<Cgroup> Cgroup::open_child(const std::string& name) const {
  ATE_TRY(check_name(name));
  const std::string path = path_ + "/" + name;
  ATE_ASSIGN(UniqueFd fd, open_directory_at(dir_.get(), name, path));
  return Cgroup(path, std::move(fd));
}

Result<Cgroup> Cgroup::make_child(const std::string& name, const Limits& limits) const {
  ATE_TRY(check_name(name));
  const bool made = ::mkdirat(dir_.get(), name.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) {
    return fail(Error::from_errno("make cgroup " + path_ + "/" + name, errno));
  }
  Result<Cgroup> child = open_child(name);
  Status status = child ? Status{} : fail(Error(child.error()));
  for (const auto& [file, value] : limits) {
    if (status) {
      status = child->write(file, value);
    }
  }
  if (!status) {
    if (made) {
      // IGNORED: the error that brought us here is the one to tell.
      static_cast<void>(::unlinkat(dir_.get(), name.c_str(), AT_REMOVEDIR));
    }
    return fail(std::move(status).error());
  }
  return child;
}

Result<std::vector<std::string>> Cgroup::children() const {
  ATE_ASSIGN(std::vector<std::string> names, list_dir(path_));
  std::erase_if(names, [this](const std::string& name) {
    struct stat info{};
    return ::fstatat(dir_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
           !S_ISDIR(info.st_mode);
  });
  return names;
}

Result<std::vector<pid_t>> Cgroup::processes() const {
  ATE_ASSIGN(const std::string text, read("cgroup.procs"));
  return split<pid_t>(text, "\n", to_pid);
}

Result<std::vector<pid_t>> Cgroup::all_processes() const {
  ATE_ASSIGN(std::vector<pid_t> all, processes());
  ATE_ASSIGN(const std::vector<std::string> names, children());
  for (const std::string& name : names) {
    const Result<Cgroup> child = open_child(name);
    Result<std::vector<pid_t>> below =
        child ? child->all_processes() : Result<std::vector<pid_t>>(fail(child.error()));
    if (!below && below.error().code() == Errc::NotFound) {
      continue;  // removed meanwhile, hence empty
    }
    ATE_ASSIGN(const std::vector<pid_t> pids, std::move(below));
    all.insert(all.end(), pids.begin(), pids.end());
  }
  return all;
}

Status Cgroup::kill() const {
  Status status = write("cgroup.kill", "1");
  if (!status && status.error().code() == Errc::NotFound && !exists(path_)) {
    return {};
  }
  return status;
}

Result<UniqueFd> Cgroup::events() const {
  UniqueFd fd(::openat(dir_.get(), "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    const Errc code = errno == ENOENT || errno == ENODEV ? Errc::NotFound : Errc::Internal;
    return fail(Error::from_errno("open " + path_ + "/cgroup.events", errno, code));
  }
  return fd;
}

Result<bool> Cgroup::populated() const {
  ATE_ASSIGN(const UniqueFd fd, events());
  return os::populated(fd);
}

Result<bool> populated(const UniqueFd& events) {
  std::array<char, 256> buffer{};
  const ssize_t got = ::pread(events.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && errno == ENODEV) {
    return false;  // removed, hence empty
  }
  if (got < 0) {
    return fail(Error::from_errno("read cgroup.events", errno));
  }
  const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  return text.find("populated 1") != std::string_view::npos;
}

Status Cgroup::remove() const {
  // rmdir by path, not by descriptor: only empty directories go, whatever stands there now.
  std::vector<std::string> pending{path_};
  while (!pending.empty()) {
    const std::string path = pending.back();
    if (::rmdir(path.c_str()) == 0 || errno == ENOENT) {
      pending.pop_back();
      continue;
    }
    const int err = errno;
    const Result<Cgroup> here = open(path);
    const Result<std::vector<std::string>> below =
        here ? here->children() : Result<std::vector<std::string>>(std::vector<std::string>{});
    if (!below || below->empty() || (err != EBUSY && err != ENOTEMPTY)) {
      return fail(remove_error(path, err));
    }
    for (const std::string& name : *below) {
      pending.push_back(path);
      pending.back().append("/").append(name);
    }
  }
  return {};
}

Result<bool> is_cgroup2(const std::string& path) {
  struct statfs info{};
  if (::statfs(path.c_str(), &info) != 0) {
    const Errc code = errno == ENOENT ? Errc::NotFound : Errc::Internal;
    return fail(Error::from_errno("statfs " + path, errno, code));
  }
  return info.f_type == CGROUP2_SUPER_MAGIC;
}

Status mount_private_cgroup2(const std::string& path) {
  ATE_TRY(make_dirs(path, 0700));
  ATE_ASSIGN(const bool there, is_cgroup2(path));
  if (there) {
    return {};
  }
  if (::mount("cgroup2", path.c_str(), "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    return fail(Error::from_errno("mount cgroup2 at " + path, errno, Errc::Unavailable));
  }
  return make_private(path);
}

}  // namespace ate::os
