// case T53, spec H1-H11: what layers make of a tree, and that nothing outside is ever touched.
#include <functional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/tar_writer.hpp"
#include "tree_support.hpp"

using namespace ate;
using ate::test::Sandbox;
using ate::test::TarEntry;
using ate::test::TarWriter;

namespace {

struct Case {
  const char* name;
  std::vector<std::string> layers;
  const char* tree;
};

std::string fifo(const std::string& name) {
  TarEntry entry;
  entry.name = name;
  entry.type = '6';
  entry.mode = 0600;
  return TarWriter().add(entry).finish();
}

}  // namespace

TEST_CASE("layers: the tree is what the OCI spec and containerd make of them") {
  const TarWriter base = TarWriter().dir("d").file("d/a", "1").file("d/b", "2").file("x", "0");
  const Case cases[] = {
      {"one layer", {base.finish()}, "d/ d755\nd/a -644 1\nd/b -644 2\nx -644 0\n"},
      {"missing parents are made",
       {TarWriter().file("p/q/r", "1").finish()},
       "p/ d755\np/q/ d755\np/q/r -644 1\n"},
      {"a directory's metadata merges",
       {base.finish(), TarWriter().dir("d", 0700).finish()},
       "d/ d700\nd/a -644 1\nd/b -644 2\nx -644 0\n"},
      {"a file replaces a directory",
       {base.finish(), TarWriter().file("d", "f").finish()},
       "d -644 f\nx -644 0\n"},
      {"a directory replaces a file",
       {base.finish(), TarWriter().dir("x").file("x/y", "1").finish()},
       "d/ d755\nd/a -644 1\nd/b -644 2\nx/ d755\nx/y -644 1\n"},
      {"a symlink replaces a directory",
       {base.finish(), TarWriter().symlink("d", "e").finish()},
       "d -> e\nx -644 0\n"},
      {"a directory replaces a symlink to a directory",
       {TarWriter().dir("t").file("t/f", "1").symlink("d", "t").finish(),
        TarWriter().dir("d").file("d/g", "2").finish()},
       "d/ d755\nd/g -644 2\nt/ d755\nt/f -644 1\n"},
      {"a file replaces a symlink, not its target",
       {TarWriter().file("t", "1").symlink("s", "t").finish(), TarWriter().file("s", "2").finish()},
       "s -644 2\nt -644 1\n"},
      {"whiteout of a file",
       {base.finish(), TarWriter().whiteout("d", "a").finish()},
       "d/ d755\nd/b -644 2\nx -644 0\n"},
      {"whiteout of a directory",
       {base.finish(), TarWriter().whiteout("", "d").finish()},
       "x -644 0\n"},
      {"whiteout of nothing",
       {base.finish(), TarWriter().whiteout("d", "zz").whiteout("no", "z").finish()},
       "d/ d755\nd/a -644 1\nd/b -644 2\nno/ d755\nx -644 0\n"},
      {"whiteout, then the name again in the same layer",
       {base.finish(), TarWriter().whiteout("", "d").file("d/n", "3").finish()},
       "d/ d755\nd/n -644 3\nx -644 0\n"},
      {"the name, then its whiteout in the same layer: only lower layers are hidden",
       {base.finish(), TarWriter().dir("d").file("d/n", "3").whiteout("", "d").finish()},
       "d/ d755\nd/n -644 3\nx -644 0\n"},
      {"a file and its whiteout in one layer",
       {base.finish(), TarWriter().file("x", "9").whiteout("", "x").finish()},
       "d/ d755\nd/a -644 1\nd/b -644 2\nx -644 9\n"},
      {"opaque before the new content",
       {base.finish(), TarWriter().dir("d").whiteout("d", ".wh..opq").file("d/n", "3").finish()},
       "d/ d755\nd/n -644 3\nx -644 0\n"},
      {"opaque after the new content",
       {base.finish(), TarWriter().dir("d").file("d/n", "3").whiteout("d", ".wh..opq").finish()},
       "d/ d755\nd/n -644 3\nx -644 0\n"},
      {"opaque keeps what the same layer put deeper",
       {TarWriter().dir("d").dir("d/s").file("d/s/old", "1").finish(),
        TarWriter().file("d/s/new", "2").whiteout("d", ".wh..opq").finish()},
       "d/ d755\nd/s/ d755\nd/s/new -644 2\n"},
      {"opaque root",
       {base.finish(), TarWriter().file("n", "3").file(".wh..wh..opq", "").finish()},
       "n -644 3\n"},
      {"a third layer sees what the second left",
       {base.finish(), TarWriter().whiteout("d", "a").finish(),
        TarWriter().file("d/a", "7").finish()},
       "d/ d755\nd/a -644 7\nd/b -644 2\nx -644 0\n"},
      {"AUFS's own records are no files",
       {base.finish(), TarWriter()
                           .dir(".wh..wh.plnk")
                           .file(".wh..wh.plnk/1.2", "p")
                           .file(".wh..wh.aufs", "")
                           .finish()},
       "d/ d755\nd/a -644 1\nd/b -644 2\nx -644 0\n"},
      {"hardlink in one layer",
       {TarWriter().file("a", "1").hardlink("b", "a").finish()},
       "a -644 1\nb -644 1\n"},
      {"hardlink to a lower layer, by an absolute name and through a symlink",
       {TarWriter().dir("r").file("r/a", "1").symlink("l", "/r").finish(),
        TarWriter().hardlink("b", "/r/a").hardlink("c", "l/a").finish()},
       "b -644 1\nc -644 1\nl -> /r\nr/ d755\nr/a -644 1\n"},
      {"hardlink to a symlink links the symlink",
       {TarWriter().symlink("s", "nowhere").hardlink("h", "s").finish()},
       "h -> nowhere\ns -> nowhere\n"},
      {"whiteout of one of two links leaves the other",
       {TarWriter().file("a", "1").finish(),
        TarWriter().hardlink("b", "a").whiteout("", "a").finish()},
       "b -644 1\n"},
      {"a symlinked parent leads where it leads inside the root",
       {TarWriter().dir("usr").dir("usr/bin").symlink("bin", "usr/bin").finish(),
        TarWriter().file("bin/sh", "1").finish()},
       "bin -> usr/bin\nusr/ d755\nusr/bin/ d755\nusr/bin/sh -644 1\n"},
      {"a parent that is a dangling symlink is made inside the root",
       {TarWriter().symlink("a", "b/c").file("a/f", "1").finish()},
       "a -> b/c\nb/ d755\nb/c/ d755\nb/c/f -644 1\n"},
      {"device, fifo and odd modes",
       {fifo("p"), TarWriter().file("s", "1", 06755).dir("t", 01777).finish()},
       "p p600 0:0\ns -6755 1\nt/ d1777\n"},
      {"the root itself is left alone",
       {TarWriter().dir(".", 0700).dir("/", 0700).file("./a", "1").finish()},
       "a -644 1\n"},
      {"names are bytes",
       {TarWriter().file("\xc3\xa4\xff\x01 \n", "1").finish()},
       "\xc3\xa4\xff\x01 \n -644 1\n"},
  };
  for (const Case& row : cases) {
    CAPTURE(row.name);
    const Sandbox box;
    const Status done = box.unpack(row.layers);
    CAPTURE(done ? "" : done.error().message());
    REQUIRE(done);
    CHECK(box.tree() == row.tree);
    CHECK(box.untouched());
  }
}

TEST_CASE("layers: hostile names stay inside the root") {
  // spec H1-H3; the classes of containerd's own table
  const std::string up = "../../../../../../../../../..";
  const auto outside = [](const Sandbox& box) { return box.outside(); };

  struct Hostile {
    const char* name;
    std::function<std::vector<std::string>(const std::string& outside)> layers;
    const char* tree;
  };

  const Hostile cases[] = {
      {"dot dot",
       [](const std::string&) {
         return std::vector{TarWriter().file("../outside/canary", "dead").finish()};
       },
       "outside/ d755\noutside/canary -644 dead\n"},
      {"absolute",
       [](const std::string& o) {
         return std::vector{TarWriter().file(o + "/canary", "dead").whiteout("", "x").finish()};
       },
       nullptr},
      {"dot dot in the middle",
       [](const std::string&) {
         return std::vector{TarWriter().file("a/../../outside/canary", "dead").finish()};
       },
       "outside/ d755\noutside/canary -644 dead\n"},
      {"absolute symlink as parent",
       [](const std::string& o) {
         return std::vector{TarWriter().symlink("l", o).file("l/canary", "dead").finish()};
       },
       nullptr},
      {"relative symlink as parent",
       [&](const std::string& o) {
         return std::vector{TarWriter().symlink("l", up + o).file("l/canary", "dead").finish()};
       },
       nullptr},
      {"symlink to .. as parent",
       [](const std::string&) {
         return std::vector{
             TarWriter().symlink("l", "..").file("l/outside/canary", "dead").finish()};
       },
       "l -> ..\noutside/ d755\noutside/canary -644 dead\n"},
      {"symlink of a lower layer as parent",
       [](const std::string& o) {
         return std::vector{TarWriter().symlink("l", o).finish(),
                            TarWriter().file("l/canary", "dead").finish()};
       },
       nullptr},
      {"chain of symlinks",
       [](const std::string& o) {
         return std::vector{TarWriter()
                                .symlink("a", "b")
                                .symlink("b", "c")
                                .symlink("c", o)
                                .file("a/canary", "dead")
                                .finish()};
       },
       nullptr},
      {"symlink, then a file of its name: the link is replaced",
       [](const std::string& o) {
         return std::vector{TarWriter().symlink("f", o + "/canary").file("f", "dead").finish()};
       },
       "f -644 dead\n"},
      {"directory over a symlink to a directory outside",
       [](const std::string& o) {
         return std::vector{
             TarWriter().symlink("d", o).dir("d", 0777).file("d/canary", "dead").finish()};
       },
       "d/ d777\nd/canary -644 dead\n"},
      {"directory swapped for a symlink mid-stream",
       [](const std::string& o) {
         return std::vector{TarWriter()
                                .dir("d")
                                .file("d/a", "1")
                                .symlink("d", o)
                                .file("d/canary", "dead")
                                .finish()};
       },
       nullptr},
      {"whiteout through a symlink",
       [](const std::string& o) {
         return std::vector{TarWriter().symlink("l", o).finish(),
                            TarWriter().whiteout("l", "canary").finish()};
       },
       nullptr},
      {"opaque through a symlink",
       [](const std::string& o) {
         return std::vector{TarWriter().symlink("l", o).finish(),
                            TarWriter().whiteout("l", ".wh..opq").finish()};
       },
       nullptr},
      {"whiteout with dot dot",
       [](const std::string&) {
         return std::vector{TarWriter().whiteout("../outside", "canary").finish()};
       },
       "outside/ d755\n"},
      {"fifo in a parent's place", [](const std::string&) { return std::vector{fifo("outside")}; },
       "outside p600 0:0\n"},
  };
  for (const Hostile& row : cases) {
    CAPTURE(row.name);
    const Sandbox box;
    const Status done = box.unpack(row.layers(outside(box)));
    CAPTURE(done ? "" : done.error().message());
    CHECK(done);
    CHECK(box.untouched());
    if (row.tree != nullptr) {
      CHECK(box.tree() == row.tree);
    }
  }
}

TEST_CASE("layers: what can't be meant is refused, and nothing outside is touched") {
  std::string deep = "d";
  for (int i = 0; i < 200; ++i) {
    deep += "/d";
  }
  const auto endless = [] {
    TarWriter tar;
    for (int i = 0; i < 300; ++i) {
      tar.symlink("l" + std::to_string(i), "l" + std::to_string(i + 1));
    }
    return tar.file("l0/x", "").finish();
  };
  const auto deeper = [] {  // each step is short, together they leave every limit
    TarWriter tar;
    std::string half;
    for (int i = 0; i < 100; ++i) {
      half += "d/";
    }
    TarEntry entry;
    entry.name = "x";
    entry.type = '5';
    entry.mode = 0755;
    entry.pax = {{"path", half}};
    TarEntry link;
    link.name = "s";
    link.type = '2';
    link.pax = {{"linkpath", half}};
    TarEntry below = entry;
    below.pax = {{"path", "s/" + half}};
    return tar.add(entry).add(link).add(below).finish();
  };
  TarEntry long_name;
  long_name.name = "x";
  long_name.pax = {{"path", std::string(300, 'n')}};
  TarEntry long_path = long_name;
  long_path.pax = {{"path", std::string(5000, '/') + "x"}};
  TarEntry deep_path = long_name;
  deep_path.pax = {{"path", deep}};

  struct Row {
    const char* says;
    std::vector<std::string> layers;
  };

  const Row rows[] = {
      {"reserved for whiteouts", {TarWriter().file(".wh.", "").finish()}},  // spec H5
      {"reserved for whiteouts", {TarWriter().file(".wh..", "").finish()}},
      {"reserved for whiteouts", {TarWriter().file("a/.wh...", "").finish()}},
      {"reserved for whiteouts", {TarWriter().file(".wh.d/x", "").finish()}},
      {"is used as a directory", {TarWriter().file("f", "").file("f/x", "").finish()}},
      {"is used as a directory", {fifo("f"), TarWriter().file("f/x", "").finish()}},
      {"too many symlinks",
       {TarWriter().symlink("a", "b").symlink("b", "a").file("a/x", "").finish()}},
      {"too many symlinks", {endless()}},
      {"deeper than 128", {TarWriter().add(deep_path).finish()}},  // spec H11
      {"deeper than 128", {deeper()}},
      {"longer than 255", {TarWriter().add(long_name).finish()}},
      {"longer than 4096", {TarWriter().add(long_path).finish()}},
      {"not there", {TarWriter().hardlink("h", "missing").finish()}},  // spec H4
      {"not there", {TarWriter().hardlink("h", "../outside/canary").finish()}},
      {"not there", {TarWriter().symlink("l", "/").hardlink("h", "l/outside/canary").finish()}},
      {"names a directory", {TarWriter().dir("d").hardlink("h", "d").finish()}},
      {"names itself", {TarWriter().file("h", "").hardlink("h", "./h").finish()}},
      {"no target", {TarWriter().hardlink("h", "/").finish()}},
      {"replaces the directory of its target",
       {TarWriter().dir("d").file("d/f", "").hardlink("d", "d/f").finish()}},
      {"empty or too long target", {TarWriter().symlink("s", "").finish()}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    const Sandbox box;
    const Status done = box.unpack(row.layers);
    REQUIRE_FALSE(done);
    CAPTURE(done.error().message());
    CHECK(done.error().code() == Errc::ImageInvalid);
    CHECK(done.error().message().find(row.says) != std::string::npos);
    CHECK(box.untouched());
  }
}
