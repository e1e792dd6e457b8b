#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ate/objects/catalog.hpp"
#include "ate/objects/sources.hpp"
#include "objects/book.hpp"
#include "objects/directory.hpp"

namespace ate::objects {

/// A wanted object on its way to being in force.
struct Candidate {
  Key key;
  std::string source;
  std::string file_digest;                      // of the file's text; "" when it comes from the API
  std::shared_ptr<const codec::Document> text;  // null when it comes from the API
  ObjectPtr from;                               // as the file gives it
  std::shared_ptr<Message> object;  // with its pins; null when it cannot or need not be put
};

/// Image references and the digests they had a moment ago: many templates share an image, and each
/// look at one starts a process.
using Resolved = std::map<std::string, Result<std::string>>;

/// What one scan works on.
struct Scan {
  DirectoryRead read;
  bool forced = false;
  bool clean = true;  // no error anywhere: objects may go
  bool pins = false;  // it counts in `arriving`
  std::vector<Candidate> candidates;
  std::map<std::string, std::vector<Problem>> file_problems;  // by path
  std::map<Key, std::vector<Problem>> key_problems;
  Resolved resolved;
  std::vector<Change> changes;
  std::vector<std::pair<Key, std::int64_t>> pruned;
};

struct Catalog::State {
  State(async::Context& loop, store::Store& rows, std::unique_ptr<Sources> from, const Clock& time,
        Options given, OnChange changed, OnLog logger);

  // scan.cpp, arrange.cpp
  [[nodiscard]] async::Task<void> scan(bool forced);
  void arrange(Scan& scan);
  void add_file(Scan& scan, const SourceFile& file, std::map<Key, std::string>& first);
  void add_api_objects(Scan& scan) const;
  void flag(Scan& scan, const Candidate& candidate, Problem problem) const;
  [[nodiscard]] async::Task<void> settle(Scan& scan, std::size_t index);
  void check_defaults(Scan& scan);
  void plan_puts(Scan& scan);
  void plan_removals(Scan& scan);
  [[nodiscard]] async::Task<Status> store_scan(Scan& scan);
  void publish(const Scan& scan);
  void show_files(const Scan& scan);
  void show_problems(const Scan& scan);
  void log_problems(const std::map<std::string, std::vector<Problem>>& problems);

  // write.cpp
  [[nodiscard]] async::Task<Result<Put>> put(Kind kind, std::string atespace, std::string name,
                                             std::string json, std::optional<std::string> if_match);
  [[nodiscard]] async::Task<Status> remove(Kind kind, std::string atespace, std::string name,
                                           std::optional<std::string> if_match);
  [[nodiscard]] Status check_write(const Key& key,
                                   const std::optional<std::string>& if_match) const;
  /// Another config of its class that is the default; "" when there is none.
  [[nodiscard]] std::string other_default(const Key& key, const Message& object) const;
  void add_to(store::Batch& batch, const Change& change) const;
  void apply(const Change& change);
  [[nodiscard]] Stamp make_stamp() const;

  // images.cpp
  /// Resolves images and imports assets into the object's status; problems when something failed.
  [[nodiscard]] async::Task<std::vector<Problem>> pin(std::shared_ptr<Message> object,
                                                      Resolved& resolved);
  /// Takes the pins over from the object in force.
  static void copy_pins(const Message& from, Message& to);
  [[nodiscard]] bool has_assets(const Message& object) const;
  void start_unpacks();
  [[nodiscard]] async::Task<void> unpack(std::shared_ptr<const v1alpha1::ActorTemplate> source);
  [[nodiscard]] async::Task<Result<image::Unpacked>> ensure_image(
      std::shared_ptr<const v1alpha1::ActorTemplate> source, int index);
  void show_image(const v1alpha1::ActorTemplate& source, int index, const std::string& state,
                  const std::string& error);

  // watch.cpp
  [[nodiscard]] async::Task<void> watch();
  [[nodiscard]] std::chrono::nanoseconds until_rescan() const;

  async::Context& context;
  store::Store& store;
  std::unique_ptr<Sources> sources;
  const Clock& clock;
  Options options;
  OnChange on_change;
  OnLog on_log;
  const References* references = nullptr;
  NextVersion next_version;
  Book book;
  int arriving = 0;      // changes that may have imported what the book does not name yet
  async::Mutex writes;   // one change of the book at a time
  async::Mutex unpacks;  // one image in the background at a time
  async::TaskScope tasks;
  FileCache cache;
  std::map<Key, std::string> settled;         // digest of the file's text that came in force
  std::map<std::string, std::string> logged;  // path -> problems that were told
  std::map<Key, SteadyTime> missing;          // since when a file lacks its object
  std::set<std::pair<Key, std::int64_t>> unpacking;
  std::vector<FileStatus> statuses;
  std::string identity;  // of the directory that the file-owned objects came from
  bool scanned = false;
  bool retry = false;  // the last scan could not finish its work
};

}  // namespace ate::objects
