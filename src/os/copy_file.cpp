#include "os/copy_file.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace ate::os {

namespace {

constexpr std::int64_t kSlice = std::int64_t{64} << 20U;
constexpr std::size_t kBuffer = std::size_t{1} << 20U;

Error failed(const char* what) {
  return Error::from_errno(what, errno);
}

Status copy_through_buffer(int from, int to, off_t begin, off_t end) {
  std::vector<char> buffer(kBuffer);
  while (begin < end) {
    const std::size_t want = std::min(buffer.size(), static_cast<std::size_t>(end - begin));
    const ssize_t got = ::pread(from, buffer.data(), want, begin);
    if (got < 0) {
      return fail(failed("read"));
    }
    if (got == 0) {
      return {};
    }
    for (ssize_t at = 0; at < got;) {
      const ssize_t put =
          ::pwrite(to, buffer.data() + at, static_cast<std::size_t>(got - at), begin + at);
      if (put < 0) {
        return fail(failed("write"));
      }
      at += put;
    }
    begin += got;
  }
  return {};
}

Status copy_range(int from, int to, off_t begin, off_t end,
                  const std::function<bool()>& cancelled) {
  while (begin < end) {
    if (cancelled && cancelled()) {
      return fail(Errc::Cancelled, "the copy was cancelled");
    }
    const off_t slice_end = std::min<off_t>(end, begin + kSlice);
    off_t in = begin;
    off_t out = begin;
    const ssize_t got =
        ::copy_file_range(from, &in, to, &out, static_cast<std::size_t>(slice_end - begin), 0);
    if (got > 0) {
      begin += got;
      continue;
    }
    if (got == 0) {
      return {};  // it has become shorter
    }
    const bool unable = errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
    if (!unable) {
      return fail(failed("copy"));
    }
    ATE_TRY(copy_through_buffer(from, to, begin, slice_end));
    begin = slice_end;
  }
  return {};
}

Status copy_data(int from, int to, const struct stat& info,
                 const std::function<bool()>& cancelled) {
  off_t at = 0;
  while (at < info.st_size) {
    off_t begin = ::lseek(from, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) {
      break;  // a hole up to the end
    }
    off_t end = info.st_size;
    if (begin < 0) {
      begin = at;  // a file system that doesn't know
    } else if (const off_t hole = ::lseek(from, begin, SEEK_HOLE); hole > begin) {
      end = std::min<off_t>(hole, info.st_size);
    }
    ATE_TRY(copy_range(from, to, begin, end, cancelled));
    at = end;
  }
  return ::ftruncate(to, info.st_size) == 0 ? Status{} : fail(failed("set the size"));
}

}  // namespace

Status copy_content(int from, int to, const struct stat& info, bool& clone,
                    const std::function<bool()>& cancelled) {
  if (info.st_size == 0) {
    return {};
  }
  if (clone) {
    if (::ioctl(to, FICLONE, from) == 0) {
      return {};
    }
    if (errno == ENOSPC || errno == EDQUOT || errno == EIO) {
      return fail(failed("share blocks"));
    }
    clone = false;
  }
  return copy_data(from, to, info, cancelled);
}

}  // namespace ate::os
