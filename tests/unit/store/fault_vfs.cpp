#include "fault_vfs.hpp"

#include <sqlite3.h>

#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>

namespace ate::test {

namespace {

// SQLite's interface has no room for a context in its file methods: one shim at a time.
struct Shared {
  sqlite3_vfs* real = nullptr;
  sqlite3_vfs shim{};
  std::mutex mutex;
  int writes_left = 0;  // 0 = no fault armed
  int write_code = 0;
  bool sync_armed = false;
  bool hit = false;
  bool recording = false;
  std::vector<FileCall> calls;
};

Shared& shared() {
  static Shared instance;
  return instance;
}

struct ShimFile {
  sqlite3_file base;
  bool log;
  sqlite3_file* real;
};

ShimFile& shim_of(sqlite3_file* file) {
  return *reinterpret_cast<ShimFile*>(file);
}

sqlite3_file* real_of(sqlite3_file* file) {
  return shim_of(file).real;
}

int shim_write(sqlite3_file* file, const void* data, int count, sqlite3_int64 offset) {
  Shared& state = shared();
  const std::scoped_lock lock(state.mutex);
  if (state.write_code != 0 && --state.writes_left <= 0) {
    state.hit = true;
    return state.write_code;
  }
  if (state.recording) {
    state.calls.push_back(
        {FileCall::Kind::Write, shim_of(file).log, offset,
         std::string(static_cast<const char*>(data), static_cast<std::size_t>(count))});
  }
  return real_of(file)->pMethods->xWrite(real_of(file), data, count, offset);
}

int shim_sync(sqlite3_file* file, int flags) {
  Shared& state = shared();
  const std::scoped_lock lock(state.mutex);
  if (state.sync_armed && shim_of(file).log) {
    state.sync_armed = false;
    state.hit = true;
    return SQLITE_IOERR_FSYNC;
  }
  if (state.recording) {
    state.calls.push_back({FileCall::Kind::Sync, shim_of(file).log, 0, {}});
  }
  return real_of(file)->pMethods->xSync(real_of(file), flags);
}

int shim_truncate(sqlite3_file* file, sqlite3_int64 size) {
  Shared& state = shared();
  const std::scoped_lock lock(state.mutex);
  if (state.recording) {
    state.calls.push_back({FileCall::Kind::Truncate, shim_of(file).log, size, {}});
  }
  return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

// clang-format off
const sqlite3_io_methods kMethods = {
  3,
  [](sqlite3_file* f) { return real_of(f)->pMethods->xClose(real_of(f)); },
  [](sqlite3_file* f, void* p, int n, sqlite3_int64 o) { return real_of(f)->pMethods->xRead(real_of(f), p, n, o); },
  shim_write,
  shim_truncate,
  shim_sync,
  [](sqlite3_file* f, sqlite3_int64* s) { return real_of(f)->pMethods->xFileSize(real_of(f), s); },
  [](sqlite3_file* f, int l) { return real_of(f)->pMethods->xLock(real_of(f), l); },
  [](sqlite3_file* f, int l) { return real_of(f)->pMethods->xUnlock(real_of(f), l); },
  [](sqlite3_file* f, int* r) { return real_of(f)->pMethods->xCheckReservedLock(real_of(f), r); },
  [](sqlite3_file* f, int o, void* a) { return real_of(f)->pMethods->xFileControl(real_of(f), o, a); },
  [](sqlite3_file* f) { return real_of(f)->pMethods->xSectorSize(real_of(f)); },
  [](sqlite3_file* f) { return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f)); },
  [](sqlite3_file* f, int g, int s, int e, void volatile** p) { return real_of(f)->pMethods->xShmMap(real_of(f), g, s, e, p); },
  [](sqlite3_file* f, int o, int n, int g) { return real_of(f)->pMethods->xShmLock(real_of(f), o, n, g); },
  [](sqlite3_file* f) { real_of(f)->pMethods->xShmBarrier(real_of(f)); },
  [](sqlite3_file* f, int d) { return real_of(f)->pMethods->xShmUnmap(real_of(f), d); },
  [](sqlite3_file* f, sqlite3_int64 o, int n, void** p) { return real_of(f)->pMethods->xFetch(real_of(f), o, n, p); },
  [](sqlite3_file* f, sqlite3_int64 o, void* p) { return real_of(f)->pMethods->xUnfetch(real_of(f), o, p); },
};
// clang-format on

int shim_open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  ShimFile& shim = shim_of(file);
  shim.log = (flags & SQLITE_OPEN_WAL) != 0;
  shim.real = reinterpret_cast<sqlite3_file*>(&shim + 1);
  sqlite3_vfs* real = shared().real;
  const int code = real->xOpen(real, name, shim.real, flags, out_flags);
  shim.base.pMethods = shim.real->pMethods == nullptr ? nullptr : &kMethods;
  return code;
}

}  // namespace

FaultVfs::FaultVfs() {
  Shared& state = shared();
  state.real = sqlite3_vfs_find("unix");
  state.shim = *state.real;  // same name: found first
  state.shim.szOsFile = static_cast<int>(sizeof(ShimFile)) + state.real->szOsFile;
  state.shim.xOpen = shim_open;
  state.shim.pNext = nullptr;
  sqlite3_vfs_register(&state.shim, 1);
}

FaultVfs::~FaultVfs() {
  Shared& state = shared();
  sqlite3_vfs_unregister(&state.shim);
  sqlite3_vfs_register(state.real, 1);
  const std::scoped_lock lock(state.mutex);
  state.write_code = 0;
  state.sync_armed = false;
  state.hit = false;
  state.recording = false;
  state.calls.clear();
}

void FaultVfs::fail_writes(int nth, int code) {
  const std::scoped_lock lock(shared().mutex);
  shared().writes_left = nth;
  shared().write_code = code;
}

void FaultVfs::fail_next_sync() {
  const std::scoped_lock lock(shared().mutex);
  shared().sync_armed = true;
}

bool FaultVfs::was_hit() {
  const std::scoped_lock lock(shared().mutex);
  return std::exchange(shared().hit, false);
}

void FaultVfs::record(bool on) {
  const std::scoped_lock lock(shared().mutex);
  shared().recording = on;
}

const std::vector<FileCall>& FaultVfs::calls() const {
  return shared().calls;
}

}  // namespace ate::test
