#include <google/protobuf/message.h>

#include <array>
#include <functional>

#include "ate/codec/codec.hpp"
#include "ate/util/log.hpp"
#include "ate/v1alpha1/objects.pb.h"
#include "codec/mapper.hpp"
#include "codec/yaml_read.hpp"
#include "codec/yaml_scan.hpp"

namespace ate::codec {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kMaxFileBytes = 1U << 20U;
constexpr std::size_t kMaxDocuments = 5'000;

struct Chunk {
  std::string_view text;
  std::uint32_t line = 1;
};

bool is_separator(std::string_view line) {
  return line.starts_with("---") && (line.size() == 3 || line[3] == ' ' || line[3] == '\t' ||
                                     line[3] == '\r' || line[3] == '\n');
}

/// Only space and a comment may follow `---`: content there would move the columns.
bool is_clean_separator(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t\r\n", 3);
  return at == std::string_view::npos || line[at] == '#';
}

bool is_blank_chunk(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    const std::size_t at = line.find_first_not_of(" \t\r\n");
    if (at != std::string_view::npos && line[at] != '#') {
      return false;
    }
    text.remove_prefix(end);
  }
  return true;
}

std::unique_ptr<pb::Message> make_message(std::string_view kind) {
  if (kind == "NodeConfig") {
    return std::make_unique<v1alpha1::NodeConfig>();
  }
  if (kind == "ActorTemplate") {
    return std::make_unique<v1alpha1::ActorTemplate>();
  }
  if (kind == "WorkerPool") {
    return std::make_unique<v1alpha1::WorkerPool>();
  }
  if (kind == "SandboxConfig") {
    return std::make_unique<v1alpha1::SandboxConfig>();
  }
  return nullptr;
}

const Member* find_member(const Node& node, std::string_view key) {
  for (const Member& member : node.members) {
    if (member.key == key) {
      return &member;
    }
  }
  return nullptr;
}

/// Reads apiVersion and kind; empty when it is missing or no text.
std::string head_text(const Node& root, std::string_view key) {
  const Member* member = find_member(root, key);
  return member != nullptr && member->value.kind == Node::Kind::String ? member->value.text : "";
}

void note_places(const Node& node, const std::string& path, std::map<std::string, Place>& places) {
  places.emplace(path, Place{node.line, node.column});
  for (const Member& member : node.members) {
    note_places(member.value, join_path(path, member.key), places);
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    note_places(node.items[i], path + "[" + std::to_string(i) + "]", places);
  }
}

/// `spec.a[0].b` -> `spec.a[0]` -> `spec.a` -> `spec` -> ``.
std::string outer_path(const std::string& path) {
  const std::size_t at = path.find_last_of(".[");
  return at == std::string::npos ? std::string() : path.substr(0, at);
}

void map_document(const Node& root, const std::string& file, Document& document) {
  Mapper mapper(document.problems, Mapper::Places::Shown, file);
  if (root.kind != Node::Kind::Mapping) {
    mapper.report(Errc::InvalidType, "", "a document must be a mapping with apiVersion and kind",
                  root.line, root.column);
    return;
  }
  document.api_version = head_text(root, "apiVersion");
  document.kind = head_text(root, "kind");
  for (const std::string_view key : {std::string_view("apiVersion"), std::string_view("kind")}) {
    if (find_member(root, key) == nullptr) {
      mapper.report(Errc::InvalidValue, std::string(key), std::string(key) + " is required",
                    root.line, root.column);
    }
  }
  std::unique_ptr<pb::Message> message = make_message(document.kind);
  if (message == nullptr) {
    if (const Member* kind = find_member(root, "kind")) {
      mapper.report(Errc::InvalidValue, "kind",
                    "\"" + escape_text(document.kind, 60) +
                        "\" is none of NodeConfig, ActorTemplate, WorkerPool, SandboxConfig" +
                        (document.kind == "Actor" ? "; actors are made through the API" : ""),
                    kind->value.line, kind->value.column);
    }
    return;
  }
  mapper.object(root, document.kind, *message);
  document.message = std::move(message);
  note_places(root, "", document.places);
}

Document broken(std::string detail, const std::string& file, std::uint32_t line,
                std::uint32_t column) {
  Document document;
  document.file = file;
  document.line = line;
  Problem problem;
  problem.code = Errc::Malformed;
  problem.detail = std::move(detail);
  problem.file = file;
  problem.line = line;
  problem.column = column;
  document.problems.push_back(std::move(problem));
  return document;
}

Document read_document(const Chunk& chunk, const std::string& file) {
  Document document;
  document.file = file;
  document.line = chunk.line;
  Result<Node> root = read_yaml(chunk.text, chunk.line);
  if (!root) {
    document.problems = root.error().problems();
    for (Problem& problem : document.problems) {
      problem.file = file;
    }
    return document;
  }
  document.line = root->line == 0 ? chunk.line : root->line;
  map_document(*root, file, document);
  return document;
}

}  // namespace

void place_problems(const Document& document, std::vector<Problem>& problems) {
  for (Problem& problem : problems) {
    problem.file = document.file;
    if (problem.line != 0) {
      continue;
    }
    std::string path = problem.field;
    auto it = document.places.find(path);
    while (it == document.places.end() && !path.empty()) {
      path = outer_path(path);
      it = document.places.find(path);
    }
    const Place place = it == document.places.end() ? Place{document.line, 1} : it->second;
    problem.line = place.line;
    problem.column = place.column;
  }
}

std::vector<Document> parse_yaml(std::string_view text, const std::string& file) {
  std::vector<Document> documents;
  if (text.size() > kMaxFileBytes) {
    documents.push_back(broken("the file is larger than 1 MiB", file, 1, 1));
    return documents;
  }
  if (const auto found = scan_characters(text)) {
    documents.push_back(broken(found->detail, file, found->line, found->column));
    return documents;
  }
  Chunk chunk;
  std::uint32_t line_number = 0;
  std::size_t chunk_start = 0;
  const auto finish = [&](std::size_t end) {
    chunk.text = text.substr(chunk_start, end - chunk_start);
    if (!is_blank_chunk(chunk.text)) {
      documents.push_back(read_document(chunk, file));
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    ++line_number;
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, end - at);
    if (is_separator(line)) {
      finish(at);
      if (!is_clean_separator(line)) {
        documents.push_back(
            broken("start the document on the line after \"---\"", file, line_number, 4));
      }
      chunk_start = end;
      chunk.line = line_number + 1;
    }
    if (documents.size() > kMaxDocuments) {
      documents.push_back(broken("more than 5000 documents", file, line_number, 1));
      return documents;
    }
    at = end;
  }
  finish(text.size());
  return documents;
}

}  // namespace ate::codec
