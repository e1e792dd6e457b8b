// From what the directory holds to what should be in force.
#include <google/protobuf/message.h>

#include "ate/v1alpha1/objects.pb.h"
#include "objects/problem_type.hpp"
#include "objects/state.hpp"

namespace ate::objects {
namespace {

Problem make_problem(Errc code, std::string field, std::string detail) {
  Problem problem;
  problem.code = code;
  problem.field = std::move(field);
  problem.detail = std::move(detail);
  return problem;
}

}  // namespace

void Catalog::State::flag(Scan& scan, const Candidate& candidate, Problem problem) const {
  scan.clean = false;
  if (candidate.source != kApiSource) {
    std::vector<Problem> placed{std::move(problem)};
    codec::place_problems(*candidate.text, placed);
    problem = std::move(placed.front());
    scan.file_problems[candidate.source].push_back(problem);
  } else {
    on_log(true, text_of(candidate.key) + ": " + problem_text(problem));
  }
  scan.key_problems[candidate.key].push_back(std::move(problem));
}

void Catalog::State::add_file(Scan& scan, const SourceFile& file,
                              std::map<Key, std::string>& first) {
  scan.file_problems[file.path] = file.problems;
  scan.clean = scan.clean && file.problems.empty();
  for (const FileObject& object : file.objects) {
    Candidate candidate;
    candidate.key = object.key;
    candidate.source = file.path;
    candidate.file_digest = file.digest;
    candidate.text = object.text;
    const auto [it, is_first] = first.emplace(object.key, file.path);
    if (!is_first) {
      flag(scan, candidate,
           make_problem(Errc::AlreadyExists, "metadata.name",
                        defined_twice(object.key, it->second)));
      if (it->second != file.path) {
        Candidate winner = candidate;
        winner.source = it->second;
        for (const Candidate& other : scan.candidates) {
          if (other.key == object.key) {
            winner.text = other.text;
          }
        }
        flag(scan, winner,
             make_problem(Errc::AlreadyExists, "metadata.name",
                          text_of(object.key) + " is defined in " + file.path +
                              " too; this one is in force"));
      }
      continue;
    }
    const std::string owner = book.source(object.key);
    if (owner == kApiSource) {
      flag(scan, candidate,
           make_problem(Errc::AlreadyExists, "metadata.name",
                        text_of(object.key) +
                            " was made through the API; delete it there before a file owns it"));
      continue;
    }
    candidate.from = object.object;
    scan.candidates.push_back(std::move(candidate));
  }
}

void Catalog::State::add_api_objects(Scan& scan) const {
  for (const Key& key : book.keys()) {
    if (key.kind != Kind::WorkerPool && book.source(key) == kApiSource) {
      Candidate candidate;
      candidate.key = key;
      candidate.source = kApiSource;
      candidate.from = book.current(key);
      scan.candidates.push_back(std::move(candidate));
    }
  }
}

void Catalog::State::arrange(Scan& scan) {
  bool owns_any = false;
  for (const Key& key : book.keys()) {
    owns_any = owns_any || book.source(key) != kApiSource;
  }
  if (scan.read.error.empty() && scan.read.files.empty() && owns_any &&
      scan.read.identity != identity) {
    // An unmounted directory looks like this: the mount point below is empty.
    scan.read.error = options.directory +
                      " is empty and not the directory that the objects came from; nothing is "
                      "removed. Is it mounted?";
  }
  if (!scan.read.error.empty()) {
    scan.clean = false;
    Problem problem = make_problem(Errc::NotFound, "", scan.read.error);
    problem.file = options.directory;
    scan.file_problems[options.directory].push_back(std::move(problem));
  }
  std::map<Key, std::string> first;
  for (const auto& [name, cached] : scan.read.files) {
    add_file(scan, *cached.file, first);
  }
  // A file that is broken just now may still hold what another one offers.
  std::erase_if(scan.candidates, [&](const Candidate& candidate) {
    const std::string owner = book.source(candidate.key);
    const auto owning = scan.file_problems.find(owner);
    if (owner.empty() || owner == candidate.source || owning == scan.file_problems.end() ||
        owning->second.empty()) {
      return false;
    }
    flag(scan, candidate,
         make_problem(Errc::AlreadyExists, "metadata.name",
                      text_of(candidate.key) + " belongs to " + owner +
                          ", which has errors; it stays as it was"));
    return true;
  });
  if (scan.forced) {
    add_api_objects(scan);
  }
}

void Catalog::State::show_problems(const Scan& scan) {
  std::set<Key> offered;
  for (const Candidate& candidate : scan.candidates) {
    offered.insert(candidate.key);
  }
  for (const Key& key : book.keys()) {
    const ObjectPtr object = book.current(key);
    if (book.source(key) == kApiSource && !scan.forced) {
      continue;  // nothing was looked at that could have mended it
    }
    std::vector<Problem> problems;
    const auto own = scan.key_problems.find(key);
    const auto file = scan.file_problems.find(book.source(key));
    if (own != scan.key_problems.end()) {
      problems = own->second;
    } else if (!offered.contains(key) && file != scan.file_problems.end()) {
      problems = file->second;
    }
    if (problems.empty() && status_of(*object).problems_size() == 0) {
      continue;
    }
    std::unique_ptr<Message> copy = copy_of(*object);
    set_problems(status_of(*copy), problems);
    if (status_of(*copy).SerializeAsString() != status_of(*object).SerializeAsString()) {
      book.show(key, metadata_of(*object).generation(), std::move(copy));
    }
  }
}

void Catalog::State::log_problems(const std::map<std::string, std::vector<Problem>>& problems) {
  std::map<std::string, std::string> told;
  for (const auto& [path, list] : problems) {
    std::string text;
    for (const Problem& problem : list) {
      text += problem_text(problem) + "\n";
    }
    if (text.empty()) {
      continue;
    }
    if (logged[path] != text) {
      for (const Problem& problem : list) {
        on_log(true, problem_text(problem));
      }
    }
    told[path] = std::move(text);
  }
  for (const auto& [path, text] : logged) {
    if (!text.empty() && !told.contains(path)) {
      on_log(false, path + ": no errors any more");
    }
  }
  logged = std::move(told);
}

}  // namespace ate::objects
