#include "runtime/gvisor/stdio_tail.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "ate/util/fd.hpp"
#include "ate/util/log.hpp"

namespace ate::runtime::gvisor {

std::int64_t size_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

std::string last_words(const std::string& path, std::int64_t from, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0 || info.st_size <= from) {
    return {};
  }
  const std::int64_t start = std::max(from, info.st_size - static_cast<std::int64_t>(limit));
  std::string text(static_cast<std::size_t>(info.st_size - start), '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), text.size(), start);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  std::string_view words(text);
  if (start > from && words.find('\n') < words.size() - 1) {
    words.remove_prefix(words.find('\n') + 1);
  }
  while (!words.empty() && words.back() == '\n') {
    words.remove_suffix(1);
  }
  return escape_text(words, limit);
}

}  // namespace ate::runtime::gvisor
