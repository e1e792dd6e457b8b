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

/// Shared objects of this process, by the names they were loaded by: that is how a program asks for
/// them, whatever file is behind.
std::set<std::string> loaded_libraries() {
  std::set<std::string> found;
  const auto collect = [](dl_phdr_info* info, std::size_t, void* data) {
    const std::string name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    if (name.starts_with('/')) {
      static_cast<std::set<std::string>*>(data)->insert(name);
    }
    return 0;
  };
  static_cast<void>(::dl_iterate_phdr(collect, &found));
  return found;
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
  for (const std::string& library : loaded_libraries()) {
    ATE_TRY(copy_file(library, directory + library));
  }
  return copy_file(loader, directory + loader);
}

}  // namespace ate::runtime::gvisor
