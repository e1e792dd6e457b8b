#include "image/path.hpp"

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ate/util/log.hpp"
#include "image/limits.hpp"

namespace ate::image {

namespace {

constexpr int kDirectoryFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

std::string show(std::string_view path) {
  return "'" + escape_text(path, 200) + "'";
}

Result<UniqueFd> open2(int directory, const std::string& path, int flags, unsigned mode,
                       std::uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags | O_CLOEXEC));
  how.mode = mode;
  how.resolve = resolve;
  // EAGAIN: a rename elsewhere raced with a lookup of ".."; the kernel asks for a retry.
  for (int attempt = 0;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
    if (fd >= 0) {
      return UniqueFd(static_cast<int>(fd));
    }
    if ((errno != EAGAIN && errno != EINTR) || attempt >= 128) {
      return fail(Error::from_errno("opening " + show(path), errno));
    }
  }
}

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    if (slash != 0) {
      parts.emplace_back(path.substr(0, slash));
    }
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return parts;
}

// One resolution of one path.
class Walker {
 public:
  Walker(int root, bool create) : root_(root), create_(create) {}

  Result<Directory> run(const std::vector<std::string>& components) {
    ATE_TRY(restart(""));
    pending_.assign(components.rbegin(), components.rend());
    while (!pending_.empty()) {
      const std::string part = std::move(pending_.back());
      pending_.pop_back();
      if (part == ".") {
        continue;
      }
      ATE_TRY(part == ".." ? go_up() : go_down(part));
    }
    return std::move(here_);
  }

 private:
  Status restart(const std::string& path) {
    ATE_ASSIGN(here_.fd, open_beneath(root_, path.empty() ? "." : path, kDirectoryFlags, 0));
    here_.path = path;
    return {};
  }

  Status go_up() {
    const std::size_t slash = here_.path.rfind('/');
    return restart(slash == std::string::npos ? "" : here_.path.substr(0, slash));
  }

  Status go_down(const std::string& part) {
    Result<UniqueFd> next = open_beneath(here_.fd.get(), part, kDirectoryFlags, 0);
    if (!next && next.error().sys_errno() == ENOENT && create_) {
      ATE_TRY(make_directory(part));
      next = open_beneath(here_.fd.get(), part, kDirectoryFlags, 0);
    }
    if (next) {
      here_.path = here_.join(part);
      here_.fd = std::move(*next);
      if (std::ranges::count(here_.path, '/') >= static_cast<std::ptrdiff_t>(kMaxDepth)) {
        return fail(Errc::ImageInvalid, show(here_.path) + " is deeper than 128 directories");
      }
      return {};
    }
    const int why = next.error().sys_errno();
    if (why == ELOOP || why == ENOTDIR) {
      return follow(part);
    }
    if (why == ENAMETOOLONG) {  // a component of a symlink's target
      return fail(Errc::ImageInvalid, "a name longer than 255 bytes: " + show(part));
    }
    if (why == ENOENT) {
      return fail(Errc::NotFound, show(here_.join(part)) + " does not exist in the image");
    }
    return fail(std::move(next).error());
  }

  Status make_directory(const std::string& part) {
    if (::mkdirat(here_.fd.get(), part.c_str(), 0755) != 0) {
      return fail(Error::from_errno("creating " + show(here_.join(part)), errno));
    }
    return {};
  }

  Status follow(const std::string& part) {
    std::array<char, kMaxPathBytes> target{};
    const ssize_t length = ::readlinkat(here_.fd.get(), part.c_str(), target.data(), target.size());
    if (length < 0) {
      return fail(Errc::ImageInvalid,
                  show(here_.join(part)) + " is used as a directory but is none");
    }
    if (++links_ > kMaxSymlinks) {
      return fail(Errc::ImageInvalid, "too many symlinks at " + show(here_.join(part)));
    }
    const std::string_view text(target.data(), static_cast<std::size_t>(length));
    if (text.starts_with('/')) {
      ATE_TRY(restart(""));
    }
    const std::vector<std::string> parts = split(text);
    pending_.insert(pending_.end(), parts.rbegin(), parts.rend());
    // Each link may add up to 2048 components; 255 links bound the work, this bounds the memory.
    if (pending_.size() > kMaxPathBytes * 4) {
      return fail(Errc::ImageInvalid,
                  "symlinks at " + show(here_.join(part)) + " grow without end");
    }
    return {};
  }

  int root_;
  bool create_;
  Directory here_;
  std::vector<std::string> pending_;
  int links_ = 0;
};

}  // namespace

Result<UniqueFd> open_beneath(int directory, const std::string& path, int flags, unsigned mode) {
  return open2(directory, path, flags, mode,
               RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

Result<UniqueFd> open_in_root(int root, const std::string& path, int flags) {
  return open2(root, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

Result<std::vector<std::string>> clean_components(std::string_view name) {
  if (name.size() > kMaxPathBytes) {
    return fail(Errc::ImageInvalid, "a path longer than 4096 bytes: " + show(name));
  }
  if (name.contains('\0')) {
    return fail(Errc::ImageInvalid, "a path with a NUL byte: " + show(name));
  }
  std::vector<std::string> clean;
  for (std::string& part : split(name)) {
    if (part == ".") {
      continue;
    }
    if (part == "..") {
      if (!clean.empty()) {
        clean.pop_back();
      }
      continue;
    }
    if (part.size() > kMaxComponentBytes) {
      return fail(Errc::ImageInvalid, "a name longer than 255 bytes: " + show(part));
    }
    clean.push_back(std::move(part));
  }
  if (clean.size() > kMaxDepth) {
    return fail(Errc::ImageInvalid, "a path deeper than 128 directories: " + show(name));
  }
  return clean;
}

Result<Directory> walk(int root, const std::vector<std::string>& components, bool create) {
  return Walker(root, create).run(components);
}

}  // namespace ate::image
