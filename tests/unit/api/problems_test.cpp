#include "ate/api/problems.hpp"

#include <fstream>
#include <set>
#include <sstream>

#include "support/catch.hpp"

using namespace ate;

TEST_CASE("problems: the table is indexed by Errc, slugs are unique, every row is explained") {
  std::set<std::string_view> slugs;
  const auto kinds = api::problem_kinds();
  REQUIRE(kinds.size() == static_cast<std::size_t>(Errc::DiskFull) + 1);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    CAPTURE(kinds[i].slug);
    REQUIRE(static_cast<std::size_t>(kinds[i].code) == i);
    REQUIRE(slugs.insert(kinds[i].slug).second);
    REQUIRE(kinds[i].status >= 400);
    REQUIRE(kinds[i].status <= 507);
    REQUIRE(kinds[i].explanation.size() > 40);
    REQUIRE(api::find_problem_kind(kinds[i].slug) == &kinds[i]);
  }
  REQUIRE(api::find_problem_kind("nonsense") == nullptr);
}

TEST_CASE("problems: docs/errors.md has exactly the rows of the table") {
  std::ifstream file(ATE_ERRORS_MD);
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  std::size_t rows = 0;
  for (std::size_t at = document.find("\n| `"); at != std::string::npos;
       at = document.find("\n| `", at + 1)) {
    ++rows;
  }
  REQUIRE(rows == api::problem_kinds().size());
  for (const api::ProblemKind& kind : api::problem_kinds()) {
    const std::string row = "\n| `" + std::string(kind.slug) + "` | " +
                            std::to_string(kind.status) + " | " + std::string(kind.title) + " | " +
                            std::string(kind.explanation) + " |";
    CAPTURE(row);
    REQUIRE(document.find(row) != std::string::npos);
  }
}

TEST_CASE("problems: a document carries the numbers, the place and all findings") {
  // case T1
  Error error = Error(Errc::BudgetTooSmall, "pool small: too small")
                    .with_field("spec.resources.limits.memory")
                    .with("budgetBytes", std::int64_t{104857600})
                    .with("instance", std::string("/v1/operations/op-1"));
  REQUIRE(
      api::problem_document(error, "/v1/x", "r1") ==
      R"({"type":"/v1/problems/budget-too-small","title":"Worker budget too small for a guest",)"
      R"("status":422,"detail":"pool small: too small","instance":"/v1/operations/op-1",)"
      R"("field":"spec.resources.limits.memory","budgetBytes":104857600,"requestId":"r1"})");
  std::vector<Problem> found{
      {Errc::UnknownField, "spec.contaners", "no such field", 14, 3, "/etc/a"},
      {Errc::InvalidType, "spec.x", "not a number", 15, 5, "/etc/a"}};
  error = Error(Errc::UnknownField, "2 problems").with_problems(std::move(found));
  const std::string text = api::problem_document(error, "", "");
  REQUIRE(text ==
          R"({"type":"/v1/problems/unknown-field","title":"Unknown field","status":400,)"
          R"("detail":"2 problems","field":"spec.contaners","line":14,"column":3,"file":"/etc/a",)"
          R"("problems":[{"type":"/v1/problems/unknown-field","field":"spec.contaners","line":14,)"
          R"("column":3,"file":"/etc/a","detail":"no such field"},{"type":)"
          R"("/v1/problems/invalid-type","field":"spec.x","line":15,"column":5,"file":"/etc/a",)"
          R"("detail":"not a number"}]})");
}

TEST_CASE("problems: what an error says never breaks the document") {
  const Error error(Errc::Internal, "quote \" newline \n bad byte \xff end");
  REQUIRE(api::problem_document(error, "", "")
              .find("quote \\\" newline \\n bad byte \xef\xbf\xbd end") != std::string::npos);
  // A member that would repeat a key of ours is left out.
  const Error twice = Error(Errc::Internal, "x").with("status", std::int64_t{200});
  REQUIRE(api::problem_document(twice, "", "").find("200") == std::string::npos);
}

TEST_CASE("problems: headers follow from members") {
  const auto header = [](const Error& error, std::string_view name) {
    const http::Response response = api::render_error(error, nullptr);
    return std::string(http::find_header(response.headers, name).value_or(""));
  };
  REQUIRE(header(Error(Errc::NoFreeWorker, "x").with("retryAfterSeconds", std::int64_t{5}),
                 "Retry-After") == "5");
  const Error busy = Error(Errc::OperationInProgress, "x").with("operation", std::string("op-9"));
  REQUIRE(header(busy, "Location") == "/v1/operations/op-9");
  REQUIRE(api::problem_document(busy, "", "").find(R"("operation":"/v1/operations/op-9")") !=
          std::string::npos);
  REQUIRE(
      header(
          Error(Errc::MethodNotAllowed, "x").with("allow", std::vector<std::string>{"GET", "PUT"}),
          "Allow") == "GET, PUT");
}

TEST_CASE("problems: an answer stays small whatever the request held") {
  std::string text(300'000, 'x');
  for (int i = 0; i < 100; ++i) {
    text += "\xc3\xbc";
  }
  const std::string document = api::problem_document(Error(Errc::InvalidValue, text), "", "");
  REQUIRE(document.size() < 5000);
  REQUIRE(document.find("xxx...\"") != std::string::npos);
  std::string odd = "x";
  while (odd.size() < 10'000) {
    odd += "\xc3\xbc";
  }
  // Cut between characters: nothing had to be replaced by U+FFFD.
  REQUIRE(api::problem_document(Error(Errc::InvalidValue, odd), "", "").find("\xef\xbf\xbd") ==
          std::string::npos);
  const std::vector<Problem> many(5000, Problem{Errc::InvalidValue, "a", "b", 1, 1, ""});
  const std::string list =
      api::problem_document(Error(Errc::InvalidValue, "a").with_problems(many), "", "");
  REQUIRE(list.size() < 20'000);
  REQUIRE(list.find(R"("problemsTotal":5000)") != std::string::npos);
}
