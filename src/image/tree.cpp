#include "image/tree.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "ate/os/fs.hpp"
#include "ate/util/log.hpp"
#include "image/limits.hpp"

namespace ate::image {

namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
/// AUFS's own records in old docker layers; never files.
constexpr std::string_view kAufs = ".wh..wh.";

std::string show(std::string_view path) {
  return "'" + escape_text(path, 200) + "'";
}

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::ImageInvalid, what);
}

enum class NameKind : std::uint8_t { Plain, Whiteout, Opaque, Ignored, Bad };

NameKind kind_of_name(const std::vector<std::string>& components) {
  for (std::size_t i = 0; i + 1 < components.size(); ++i) {
    if (components[i].starts_with(kAufs)) {
      return NameKind::Ignored;
    }
    if (components[i].starts_with(kWhiteout)) {
      return NameKind::Bad;  // a directory of that name would stay in the tree
    }
  }
  const std::string& last = components.back();
  if (last == kOpaque) {
    return NameKind::Opaque;
  }
  if (last.starts_with(kAufs)) {
    return NameKind::Ignored;
  }
  if (!last.starts_with(kWhiteout)) {
    return NameKind::Plain;
  }
  const std::string_view target = std::string_view(last).substr(kWhiteout.size());
  return target.empty() || target == "." || target == ".." ? NameKind::Bad : NameKind::Whiteout;
}

}  // namespace

void Tree::begin_layer() {
  own_.clear();
  directory_times_.clear();
  parent_components_.clear();
  parent_ = Directory();
}

void Tree::mark(const std::string& path) {
  std::string_view rest = path;
  while (!rest.empty() && own_.emplace(rest).second) {
    const std::size_t slash = rest.rfind('/');
    if (slash == std::string_view::npos) {
      return;
    }
    rest = rest.substr(0, slash);
  }
}

Result<Tree::Place> Tree::place(const std::vector<std::string>& components) {
  Place at;
  at.name = components.back();
  const std::vector<std::string> parents(components.begin(), components.end() - 1);
  if (!parent_.fd || parents != parent_components_) {
    ATE_ASSIGN(parent_, walk(root_.get(), parents, true));
    parent_components_ = parents;
  }
  at.parent = parent_.fd.get();
  at.path = parent_.join(at.name);
  if (at.path.size() > kMaxPathBytes) {
    return invalid("a path longer than 4096 bytes: " + show(at.path));
  }
  return at;
}

Status Tree::apply(const Entry& entry, TarReader& data) {
  if (++entries_ > limits_.entries) {
    return invalid("more than " + std::to_string(limits_.entries) + " files");
  }
  ATE_ASSIGN(const std::vector<std::string> components, clean_components(entry.name));
  if (components.empty()) {
    return {};  // the root itself: containerd leaves it alone too
  }
  const NameKind kind = kind_of_name(components);
  if (kind == NameKind::Bad) {
    return invalid("a name that is reserved for whiteouts: " + show(entry.name));
  }
  if (kind == NameKind::Ignored) {
    return {};
  }
  ATE_ASSIGN(const Place at, place(components));
  if (kind == NameKind::Plain) {
    bool merge = false;
    ATE_TRY(make_room(at, entry, merge));
    ATE_TRY(create(at, entry, data, merge));
    mark(at.path);
  } else if (kind == NameKind::Whiteout) {
    const std::string target = at.name.substr(kWhiteout.size());
    ATE_TRY(remove_lower(at.parent, target, parent_.join(target)));
    stale_ = true;
  } else {
    mark(parent_.path);
    ATE_TRY(clear_lower(at.parent, parent_.path));
    stale_ = true;
  }
  if (stale_) {
    parent_ = Directory();
    stale_ = false;
  }
  return {};
}

// Removes what lower layers brought; what this layer brought stays, whatever the order (OCI image
// spec: whiteouts apply to lower layers only).
Status Tree::remove_lower(int parent, const std::string& name, const std::string& path) {
  if (!own_.contains(path)) {
    return os::remove_tree_at(parent, name);
  }
  Result<UniqueFd> inner = open_beneath(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
  if (!inner) {
    const int why = inner.error().sys_errno();
    if (why == ENOTDIR || why == ELOOP || why == ENOENT) {
      return {};
    }
    return fail(std::move(inner).error());
  }
  return clear_lower(inner->get(), path);
}

Status Tree::clear_lower(int directory, const std::string& path) {
  ATE_ASSIGN(const std::vector<std::string> names, os::list_dir_at(directory, path));
  for (const std::string& name : names) {
    std::string inner = path;
    inner.append(path.empty() ? "" : "/").append(name);
    ATE_TRY(remove_lower(directory, name, inner));
  }
  return {};
}

Status Tree::make_room(const Place& at, const Entry& entry, bool& merge) {
  struct stat info{};
  if (entry.type == EntryType::HardLink) {
    return {};  // removed once the target is known to exist and to be another file
  }
  if (::fstatat(at.parent, at.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) {
      return {};
    }
    return fail(Error::from_errno("looking at " + show(at.path), errno));
  }
  if (S_ISDIR(info.st_mode) && entry.type == EntryType::Directory) {
    merge = true;
    return {};
  }
  stale_ = true;
  return os::remove_tree_at(at.parent, at.name);
}

Status Tree::create(const Place& at, const Entry& entry, TarReader& data, bool merge) {
  switch (entry.type) {
    case EntryType::Regular:
      return create_file(at, entry, data);
    case EntryType::Directory:
      return create_directory(at, entry, merge);
    case EntryType::Symlink:
      return create_symlink(at, entry);
    case EntryType::HardLink:
      return create_hardlink(at, entry);
    case EntryType::Character:
    case EntryType::Block:
    case EntryType::Fifo:
      return create_special(at, entry);
  }
  return {};
}

Status Tree::end_layer() {
  for (const auto& [path, times] : directory_times_) {
    const Result<UniqueFd> directory =
        open_beneath(root_.get(), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (!directory) {
      continue;  // replaced by something else later in the same layer
    }
    const timespec value{static_cast<time_t>(times.seconds), static_cast<long>(times.nanoseconds)};
    const timespec both[2] = {value, value};
    if (::futimens(directory->get(), both) != 0) {
      return fail(Error::from_errno("setting the time of " + show(path), errno));
    }
  }
  return {};
}

}  // namespace ate::image
