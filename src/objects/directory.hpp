#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ate/codec/codec.hpp"
#include "ate/util/result.hpp"
#include "objects/object.hpp"

namespace ate::objects {

/// An object as a file gives it: checked, with its defaults.
struct FileObject {
  Key key;
  /// Of the fields that later work may find fault with; the message is in `object`.
  std::shared_ptr<const codec::Document> text;
  ObjectPtr object;
};

/// One file and what is wrong with it.
struct SourceFile {
  std::string path;
  std::string digest;  // of the text; "" when it could not be read
  std::vector<Problem> problems;
  std::vector<FileObject> objects;  // in the order of the file, also those named twice
};

/// When these are equal the file is the same (unless it changed just now).
struct Signature {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  uid_t owner = 0;
  mode_t mode = 0;

  bool operator==(const Signature&) const = default;
};

struct CachedFile {
  Signature signature;
  bool settled = false;  // its ctime was old when it was read: an equal signature is an equal file
  std::shared_ptr<const SourceFile> file;
};

using FileCache = std::map<std::string, CachedFile>;  // by file name

/// What one scan saw. `error` set: nothing is known about the objects, and nothing may go.
struct DirectoryRead {
  std::string error;
  std::string identity;  // device and inode of the directory
  bool retry = false;    // a file changed while it was read
  FileCache files;
};

/// Reads `*.yaml` and `*.yml` of the directory in byte order, not recursively. Blocking. Files that
/// did not change since `before` are not parsed again.
[[nodiscard]] DirectoryRead read_directory(const std::string& path, const FileCache& before);

/// Parses and checks one file's text.
[[nodiscard]] SourceFile parse_source(const std::string& path, const std::string& text);

}  // namespace ate::objects
