#include "objects/book.hpp"

#include <google/protobuf/message.h>

#include <algorithm>
#include <charconv>

#include "ate/v1alpha1/objects.pb.h"

namespace ate::objects {
namespace {

constexpr std::string_view kMetaPrefix = "generation/ActorTemplate/";

std::string ready_text(const Message& object) {
  const auto* source = dynamic_cast<const v1alpha1::ActorTemplate*>(&object);
  if (source == nullptr) {
    return "True";
  }
  bool ready = true;
  for (const v1alpha1::ImageStatus& image : source->status().images()) {
    if (image.state() == "Failed") {
      return "False";
    }
    ready = ready && image.state() == "Ready";
  }
  return ready ? "True" : "Unknown";
}

void fill_object_status(Message& object, const std::string& source) {
  const std::string digest = digest_of(object);
  v1alpha1::ObjectStatus& status = status_of(object);
  const bool from_api = source == kApiSource;
  status.set_source(from_api ? "api" : "file");
  status.set_file(from_api ? "" : source);
  status.set_digest(digest);
  status.set_ready(ready_text(object));
}

}  // namespace

std::string generation_meta_key(const Key& key) {
  return std::string(kMetaPrefix) + key.atespace + "/" + key.name;
}

Status Book::load(const store::Loaded& loaded, SteadyTime now) {
  for (const store::ObjectRow& row : loaded.objects) {
    Key key;
    if (!parse_kind(row.kind, key.kind)) {
      return fail(Errc::Internal, "the store has an object of unknown kind \"" + row.kind + "\"");
    }
    key.atespace = row.atespace;
    key.name = row.name;
    std::unique_ptr<Message> object = make_object(key.kind);
    if (!object->ParseFromString(row.bytes)) {
      return fail(Errc::Internal, "the store's row of " + text_of(key) + " is damaged");
    }
    if (auto* source = dynamic_cast<v1alpha1::ActorTemplate*>(object.get())) {
      for (v1alpha1::ImageStatus& image : *source->mutable_status()->mutable_images()) {
        image.set_state("Pending");
      }
    }
    fill_object_status(*object, row.source);
    Entry& entry = entries_[key];
    if (!row.hidden && row.generation > entry.current) {
      entry.current = row.generation;
      entry.source = row.source;
    }
    entry.versions[row.generation] = Version{std::move(object), now};
    std::int64_t& last = last_generations_[key];
    last = std::max(last, row.generation);
  }
  for (const auto& [name, value] : loaded.meta) {
    const std::size_t slash = name.rfind('/');
    if (!name.starts_with(kMetaPrefix) || slash < kMetaPrefix.size()) {
      continue;
    }
    const Key key{Kind::ActorTemplate, name.substr(kMetaPrefix.size(), slash - kMetaPrefix.size()),
                  name.substr(slash + 1)};
    std::int64_t generation = 0;
    std::from_chars(value.data(), value.data() + value.size(), generation);
    std::int64_t& last = last_generations_[key];
    last = std::max(last, generation);
  }
  return {};
}

ObjectPtr Book::current(const Key& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() || it->second.current == 0
             ? nullptr
             : it->second.versions.at(it->second.current).object;
}

ObjectPtr Book::version(const Key& key, std::int64_t generation) const {
  const auto it = entries_.find(key);
  if (it == entries_.end()) {
    return nullptr;
  }
  const auto found = it->second.versions.find(generation);
  return found == it->second.versions.end() ? nullptr : found->second.object;
}

std::string Book::source(const Key& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() || it->second.current == 0 ? std::string() : it->second.source;
}

std::vector<ObjectPtr> Book::list(Kind kind, const std::string& atespace) const {
  std::vector<ObjectPtr> out;
  for (const auto& [key, entry] : entries_) {
    if (key.kind == kind && entry.current != 0 && (atespace.empty() || key.atespace == atespace)) {
      out.push_back(entry.versions.at(entry.current).object);
    }
  }
  return out;
}

void Book::visit(const std::function<void(const ObjectPtr&)>& visit) const {
  for (const auto& [key, entry] : entries_) {
    for (const auto& [generation, version] : entry.versions) {
      visit(version.object);
    }
  }
}

std::vector<Key> Book::keys() const {
  std::vector<Key> out;
  for (const auto& [key, entry] : entries_) {
    if (entry.current != 0) {
      out.push_back(key);
    }
  }
  return out;
}

store::ObjectRow Book::row(const Key& key, const Message& object, const std::string& source,
                           bool hidden) const {
  store::ObjectRow out;
  out.kind = name(key.kind);
  out.atespace = key.atespace;
  out.name = key.name;
  out.generation = metadata_of(object).generation();
  out.digest = status_of(object).digest();
  out.source = source;
  out.hidden = hidden;
  out.bytes = stored_bytes(object);
  return out;
}

std::int64_t Book::last_generation(const Key& key) const {
  const auto it = last_generations_.find(key);
  return it == last_generations_.end() ? 0 : it->second;
}

std::optional<Change> Book::plan_put(const Key& key, const Message& candidate,
                                     const std::string& source,
                                     const std::function<Stamp()>& make_stamp) const {
  const ObjectPtr before = current(key);
  const std::string digest = digest_of(candidate);
  const bool same_digest = before != nullptr && status_of(*before).digest() == digest;
  if (same_digest && is_same(*before, candidate) && this->source(key) == source) {
    return std::nullopt;
  }
  const Stamp stamp = make_stamp();
  std::unique_ptr<Message> object = copy_of(candidate);
  Change change;
  change.key = key;
  change.source = source;
  change.what = before == nullptr ? Change::What::Created : Change::What::Updated;
  change.generation = same_digest ? metadata_of(*before).generation() : last_generation(key) + 1;
  v1alpha1::Metadata& metadata = metadata_of(*object);
  metadata.set_uid(before == nullptr ? stamp.uid : metadata_of(*before).uid());
  metadata.set_created_at(before == nullptr ? stamp.created_at : metadata_of(*before).created_at());
  metadata.set_generation(change.generation);
  metadata.set_resource_version(std::to_string(stamp.version));
  fill_object_status(*object, source);
  change.put_rows.push_back(row(key, *object, source, false));
  if (before != nullptr && !same_digest) {
    // A template's old generation is kept while something names it; the others have one version.
    store::ObjectRow old = row(key, *before, this->source(key), true);
    (key.kind == Kind::ActorTemplate ? change.put_rows : change.delete_rows).push_back(old);
  }
  if (key.kind == Kind::ActorTemplate && !same_digest) {
    change.meta.emplace_back(generation_meta_key(key), std::to_string(change.generation));
  }
  change.object = std::move(object);
  return change;
}

Change Book::plan_remove(const Key& key) const {
  const Entry& entry = entries_.at(key);
  Change change;
  change.key = key;
  change.what = Change::What::Removed;
  change.source = entry.source;
  change.generation = entry.current;
  const store::ObjectRow old =
      row(key, *entry.versions.at(entry.current).object, entry.source, true);
  (key.kind == Kind::ActorTemplate ? change.put_rows : change.delete_rows).push_back(old);
  return change;
}

void Book::apply(const Change& change, SteadyTime now) {
  Entry& entry = entries_[change.key];
  const bool one_version = change.key.kind != Kind::ActorTemplate;
  if (change.what == Change::What::Removed && one_version) {
    entries_.erase(change.key);
    last_generations_.erase(change.key);
    return;
  }
  if (entry.current != 0 && entry.current != change.generation && one_version) {
    entry.versions.erase(entry.current);
  } else if (entry.current != 0) {
    entry.versions[entry.current].retired = now;
  }
  if (change.what == Change::What::Removed) {
    entry.current = 0;
    return;
  }
  entry.current = change.generation;
  entry.source = change.source;
  entry.versions[change.generation] = Version{change.object, now};
  std::int64_t& last = last_generations_[change.key];
  last = std::max(last, change.generation);
}

std::vector<std::pair<Key, std::int64_t>> Book::prunable(SteadyTime now, std::chrono::seconds grace,
                                                         const InUse& in_use) const {
  std::vector<std::pair<Key, std::int64_t>> out;
  for (const auto& [key, entry] : entries_) {
    for (const auto& [generation, version] : entry.versions) {
      if (generation != entry.current && now - version.retired >= grace &&
          !in_use(key, generation)) {
        out.emplace_back(key, generation);
      }
    }
  }
  return out;
}

void Book::forget(const Key& key, std::int64_t generation) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) {
    return;
  }
  it->second.versions.erase(generation);
  if (it->second.versions.empty()) {
    entries_.erase(it);
  }
}

void Book::show(const Key& key, std::int64_t generation, ObjectPtr object) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) {
    return;
  }
  const auto version = it->second.versions.find(generation);
  if (version != it->second.versions.end()) {
    version->second.object = std::move(object);
  }
}

}  // namespace ate::objects
