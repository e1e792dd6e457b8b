#include "codec/yaml_read.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <sstream>

#include "codec/yaml_scan.hpp"

namespace ate::codec {
namespace {

/// Thrown through yaml-cpp by the handler and caught below: its parser has no other way to stop.
struct Refusal {
  std::string detail;
  YAML::Mark mark;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// JSON's number grammar, without leading zeros.
bool is_number(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&]() {
    const std::size_t start = at;
    while (at < text.size() && is_digit(text[at])) {
      ++at;
    }
    return at - start;
  };
  const std::size_t first = at;
  const std::size_t whole = digits();
  if (whole == 0 || (whole > 1 && text[first] == '0')) {
    return false;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) {
      return false;
    }
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
      ++at;
    }
    if (digits() == 0) {
      return false;
    }
  }
  return at == text.size();
}

/// Text that some YAML reader takes for a number or a boolean: 0x1F, 0o17, 007, 1_000, +1, .5, 1.,
/// .inf, .nan, True. As a string it needs quotes, so that nobody has to know which reader is right.
bool looks_typed(std::string_view text) {
  static constexpr std::string_view kWords[] = {"true",  "True",  "TRUE", "false",
                                                "False", "FALSE", "Null", "NULL"};
  if (std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords)) {
    return true;
  }
  if (text.starts_with('-') || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  if (text.starts_with(".inf") || text.starts_with(".Inf") || text.starts_with(".INF") ||
      text.starts_with(".nan") || text.starts_with(".NaN") || text.starts_with(".NAN")) {
    return text.size() == 4;
  }
  if (text.starts_with("0x") || text.starts_with("0o") || text.starts_with("0b")) {
    return text.size() > 2 && std::all_of(text.begin() + 2, text.end(), [](char c) {
             return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '_';
           });
  }
  const bool numeric = std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || c == '.' || c == '_' || c == 'e' || c == 'E' || c == '+' || c == '-';
  });
  // `1.2.3` and `2026-11-30` are plain text; at most one point, signs only in an exponent.
  const auto count = [text](char c) { return std::count(text.begin(), text.end(), c); };
  const std::size_t exponent = text.find_first_of("eE");
  const std::size_t sign = text.find_first_of("+-");
  const bool sign_ok = sign == std::string_view::npos ||
                       (exponent != std::string_view::npos && sign == exponent + 1);
  return numeric && !text.empty() && (is_digit(text.front()) || text.front() == '.') &&
         std::any_of(text.begin(), text.end(), is_digit) && count('.') <= 1 && sign_ok &&
         count('e') + count('E') <= 1;
}

void type_plain(Node& node) {
  node.kind = Node::Kind::String;
  if (node.text == "true" || node.text == "false") {
    node.kind = Node::Kind::Bool;
    node.ambiguous = true;
  } else if (is_number(node.text)) {
    node.kind = Node::Kind::Number;
    node.ambiguous = true;
  } else if (looks_typed(node.text)) {
    // Neither a number nor a boolean of ours: only a quantity may read it, as text.
    node.kind = Node::Kind::Number;
    node.ambiguous = true;
  }
}

class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::uint32_t first_line) : first_line_(first_line) {}

  Node root;

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}

  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    Node node;
    place(node, mark);
    add(std::move(node), mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw Refusal{"aliases are not allowed", mark};
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    // "?" is a plain scalar, "!" a quoted or block one; others are explicit tags.
    if (tag != "?" && tag != "!") {
      throw Refusal{"tags are not allowed", mark};
    }
    Node node;
    place(node, mark);
    node.kind = Node::Kind::String;
    node.text = value;
    if (tag == "?") {
      type_plain(node);
    }
    add(std::move(node), mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Node::Kind::Sequence);
  }

  void OnSequenceEnd() override { stack_.pop_back(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Node::Kind::Mapping);
  }

  void OnMapEnd() override { stack_.pop_back(); }

 private:
  struct Frame {
    Node* node = nullptr;
    bool key_given = false;
  };

  static void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) {
      throw Refusal{"anchors are not allowed", mark};
    }
  }

  void place(Node& node, const YAML::Mark& mark) const {
    node.line = first_line_ + static_cast<std::uint32_t>(std::max(mark.line, 0));
    node.column = static_cast<std::uint32_t>(std::max(mark.column, 0)) + 1;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    refuse_anchor(mark, anchor);
    if (tag != "?") {
      throw Refusal{"tags are not allowed", mark};
    }
    if (stack_.size() >= kMaxDepth) {
      throw Refusal{"nested deeper than " + std::to_string(kMaxDepth), mark};
    }
    Node node;
    place(node, mark);
    node.kind = kind;
    Node* added = add(std::move(node), mark);
    stack_.push_back({added, false});
  }

  /// Puts the node where it belongs; the address stays good while the node is open, because its
  /// parent's list grows only afterwards.
  Node* add(Node node, const YAML::Mark& mark) {
    if (++count_ > kMaxNodes) {
      throw Refusal{"more than " + std::to_string(kMaxNodes) + " values", mark};
    }
    if (stack_.empty()) {
      root = std::move(node);
      return &root;
    }
    Frame& frame = stack_.back();
    if (frame.node->kind == Node::Kind::Sequence) {
      return &frame.node->items.emplace_back(std::move(node));
    }
    if (frame.key_given) {
      frame.key_given = false;
      frame.node->members.back().value = std::move(node);
      return &frame.node->members.back().value;
    }
    if (node.kind == Node::Kind::Sequence || node.kind == Node::Kind::Mapping ||
        node.kind == Node::Kind::Null) {
      throw Refusal{"a key must be a text", mark};
    }
    frame.key_given = true;
    Member& member = frame.node->members.emplace_back();
    member.key = std::move(node.text);
    member.ambiguous = node.ambiguous;
    member.line = node.line;
    member.column = node.column;
    return nullptr;
  }

  std::vector<Frame> stack_;
  std::uint32_t first_line_;
  std::size_t count_ = 0;
};

/// The parser's words for a line that stands too far left or right.
std::string told(const std::string& message) {
  const bool is_indentation =
      message == "end of sequence not found" || message == "end of map not found";
  return is_indentation ? "this line's indentation fits nothing above it (" + message + ")"
                        : message;
}

std::unexpected<Error> malformed(std::string detail, std::uint32_t line, std::uint32_t column) {
  Problem problem;
  problem.code = Errc::Malformed;
  problem.detail = std::move(detail);
  problem.line = line;
  problem.column = column;
  return fail(Error(Errc::Malformed, "invalid YAML").with_problems({std::move(problem)}));
}

}  // namespace

Result<Node> read_yaml(std::string_view text, std::uint32_t first_line) {
  if (const auto found = scan_structure(text)) {
    return malformed(found->detail, first_line + found->line - 1, found->column);
  }
  Builder builder(first_line);
  const auto at = [first_line](const YAML::Mark& mark) {
    return first_line + static_cast<std::uint32_t>(std::max(mark.line, 0));
  };
  const auto column = [](const YAML::Mark& mark) {
    return static_cast<std::uint32_t>(std::max(mark.column, 0)) + 1;
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    // Once more, to see that nothing is left; never in a loop: yaml-cpp 0.7 has texts that it
    // never takes away.
    Builder rest(first_line);
    if (parser.HandleNextDocument(rest)) {
      return malformed("unexpected text after the end of the document", rest.root.line,
                       rest.root.column);
    }
  } catch (const Refusal& refusal) {
    return malformed(refusal.detail, at(refusal.mark), column(refusal.mark));
  } catch (const YAML::Exception& exception) {
    return malformed(told(exception.msg), at(exception.mark), column(exception.mark));
  } catch (const std::exception& exception) {
    return malformed(exception.what(), first_line, 1);
  }
  return std::move(builder.root);
}

}  // namespace ate::codec
