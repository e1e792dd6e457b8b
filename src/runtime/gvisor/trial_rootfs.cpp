// The root file system that the self-test runs in.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "ate/os/fs.hpp"
#include "runtime/gvisor/trial.hpp"

namespace ate::runtime::gvisor {
namespace {

Status copy_file(const std::string& from, const std::string& to) {
  ATE_TRY(os::make_dirs(os::parent_dir(to), 0755));
  const UniqueFd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!source || ::fstat(source.get(), &info) != 0) {
    return fail(Error::from_errno("opening " + from, errno));
  }
  const UniqueFd target(
      ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0755));
  if (!target || ::fchmod(target.get(), 0755) != 0) {
    return fail(Error::from_errno("creating " + to, errno));
  }
  off_t left = info.st_size;
  while (left > 0) {
    const ssize_t moved =
        ::sendfile(target.get(), source.get(), nullptr, static_cast<std::size_t>(left));
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    if (moved <= 0) {
      return fail(Error::from_errno("copying " + from, errno));
    }
    left -= moved;
  }
  return {};
}

/// The program interpreter of this process; "" when it is linked statically.
std::string interpreter() {
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(::getauxval(AT_PHDR));
  const std::size_t count = ::getauxval(AT_PHNUM);
  if (headers == nullptr) {
    return {};
  }
  std::uintptr_t base = 0;
  const std::span<const ElfW(Phdr)> all(headers, count);
  for (const ElfW(Phdr) & header : all) {
    if (header.p_type == PT_PHDR) {
      base = reinterpret_cast<std::uintptr_t>(headers) - header.p_vaddr;
    }
  }
  for (const ElfW(Phdr) & header : all) {
    if (header.p_type == PT_INTERP) {
      // SAFETY: the kernel has mapped the segment at its address plus the load base.
      return std::string(reinterpret_cast<const char*>(base + header.p_vaddr));
    }
  }
  return {};
}

/// Shared objects mapped into this process.
std::set<std::string> mapped_libraries() {
  constexpr std::size_t kMapsLimit = 16 << 20;
  std::set<std::string> found;
  const Result<std::string> maps = os::read_file("/proc/self/maps", kMapsLimit);
  std::size_t at = 0;
  while (maps && at < maps->size()) {
    const std::size_t end = maps->find('\n', at);
    const std::string line = maps->substr(at, end - at);
    const std::size_t path = line.find('/');
    if (path != std::string::npos && line.find(".so") != std::string::npos) {
      found.insert(line.substr(path));
    }
    at = end == std::string::npos ? maps->size() : end + 1;
  }
  return found;
}

/// `libx.so.1.2.3` is asked for as `libx.so.1` or `libx.so.1.2`: on the host those are links, which
/// the kernel's list of mappings has resolved.
Status link_sonames(const std::string& path) {
  const std::size_t stop = path.find(".so") + 3;
  const std::string target = path.substr(path.rfind('/') + 1);
  for (std::size_t dot = path.rfind('.'); dot != std::string::npos && dot > stop;
       dot = path.rfind('.', dot - 1)) {
    if (::symlink(target.c_str(), path.substr(0, dot).c_str()) != 0 && errno != EEXIST) {
      return fail(Error::from_errno("symlink " + path.substr(0, dot), errno));
    }
  }
  return {};
}

}  // namespace

Status make_trial_rootfs(const std::string& directory, const std::string& program) {
  ATE_TRY(os::make_dirs(directory, 0755));
  ATE_TRY(copy_file(program, directory + "/selftest"));
  const std::string loader = interpreter();
  if (program != "/proc/self/exe" || loader.empty()) {
    return {};  // another program is given only where it is static
  }
  // A development build: the loader finds libraries in its default folders.
  for (const std::string& library : mapped_libraries()) {
    ATE_TRY(copy_file(library, directory + library));
    ATE_TRY(link_sonames(directory + library));
  }
  return copy_file(loader, directory + loader);
}

}  // namespace ate::runtime::gvisor
