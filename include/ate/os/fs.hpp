#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ate/util/fd.hpp"
#include "ate/util/result.hpp"

namespace ate::os {

/// Opens a directory for reading and as the base of openat. The path comes from configuration or
/// core::Paths and may lead through symbolic links. NotFound when missing.
[[nodiscard]] Result<UniqueFd> open_dir(const std::string& path);

/// openat2 below `dir`: never above it, through no symbolic link, into no magic link. `flags` as
/// open(2), O_CLOEXEC is added; `mode` for O_CREAT. NotFound when missing.
[[nodiscard]] Result<UniqueFd> open_beneath(const UniqueFd& dir, const std::string& relative,
                                            int flags, mode_t mode);

/// The whole of a file of at most `limit` bytes. NotFound when missing, InvalidValue when longer.
/// Works for /proc and cgroup files, whose size is not known before.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t limit);
/// The same from an open descriptor, from its current offset; `name` is for the message.
[[nodiscard]] Result<std::string> read_descriptor(int fd, std::size_t limit, std::string_view name);

/// Overwrites an existing control file (/proc, cgroup) with one write(2).
[[nodiscard]] Status write_control_file(const std::string& path, std::string_view value);

/// Writes all of `data`. The offset moves on.
[[nodiscard]] Status write_all(int fd, std::string_view data, std::string_view name);

/// Replaces `path` so that a crash leaves the old or the new content: temporary file beside it,
/// fsync, rename, fsync of the directory. The file has exactly `mode`.
[[nodiscard]] Status write_file_atomic(const std::string& path, std::string_view content,
                                       mode_t mode);

/// Writes a file that is not there yet, with exactly `mode` whatever the umask. No fsync: for what
/// a crash makes worthless, or for what the caller syncs with more.
[[nodiscard]] Status create_file(const std::string& path, std::string_view content, mode_t mode);

/// Makes one directory with exactly `mode` whatever the umask. Ok when it exists already as a
/// directory, whose mode is then left alone; anything else there is an error.
[[nodiscard]] Status make_dir(const std::string& path, mode_t mode);
/// The same with missing parents.
[[nodiscard]] Status make_dirs(const std::string& path, mode_t mode);

/// Names in a directory, sorted, without `.` and `..`. NotFound when missing.
[[nodiscard]] Result<std::vector<std::string>> list_dir(const std::string& path);
/// The same of an open directory, whose offset is left alone; O_PATH will do.
[[nodiscard]] Result<std::vector<std::string>> list_dir_at(int dir, std::string_view path);

/// Removes a file or a whole tree. Missing is ok. Follows no symbolic link, enters no mount: a
/// mount below is InUse and stays, with what it holds. Depth and width are bounded by neither the
/// stack nor descriptors nor PATH_MAX.
[[nodiscard]] Status remove_tree(const std::string& path);
/// The same for the entry `name` of an open directory; O_PATH will do.
[[nodiscard]] Status remove_tree_at(int dir, const std::string& name);

/// unlink(2); missing is ok.
[[nodiscard]] Status remove_file(const std::string& path);

/// fsync of a file or directory.
[[nodiscard]] Status fsync_path(const std::string& path);
/// rename(2) within one directory or across, then fsync of both parents.
[[nodiscard]] Status rename_durably(const std::string& from, const std::string& to);

[[nodiscard]] Result<bool> is_same_filesystem(const std::string& a, const std::string& b);

/// False for missing and for unreadable.
[[nodiscard]] bool exists(const std::string& path);

/// Up to the last slash: "." when there is none.
[[nodiscard]] std::string parent_dir(const std::string& path);

}  // namespace ate::os
