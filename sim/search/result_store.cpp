// The one file that touches SQLite. A call that fails for a lock waits ten seconds for it first.
// Without fsync (synchronous = OFF) a transaction survives a killed process, though not a power
// cut; then SQLite's own check finds a broken file, and the search starts anew.
#include "sim/search/result_store.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include <sqlite3.h>

namespace megatwin::sim {
namespace {

constexpr int kLockWaitMs = 10'000;

constexpr const char* kSchema =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
    "CREATE TABLE IF NOT EXISTS searches (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);"
    "CREATE TABLE IF NOT EXISTS step_times (search INTEGER NOT NULL REFERENCES searches (id),"
    " plan BLOB NOT NULL, nanoseconds INTEGER NOT NULL, PRIMARY KEY (search, plan)) WITHOUT ROWID;";

}  // namespace

struct ResultStore::State {
  explicit State(std::string file) : path(std::move(file)) {
    const int result = sqlite3_open(path.c_str(), &database);
    if (result != SQLITE_OK) fail_and_close();
    sqlite3_busy_timeout(database, kLockWaitMs);
  }
  ~State() { sqlite3_close(database); }

  [[noreturn]] void fail() const {
    throw StoreError("cannot use " + path + " as a store of results: " + sqlite3_errmsg(database));
  }
  [[noreturn]] void fail_and_close() {
    const std::string reason = database != nullptr ? sqlite3_errmsg(database) : "out of memory";
    sqlite3_close(database);
    throw StoreError("cannot open " + path + " as a store of results: " + reason);
  }

  void run(const char* sql) const {
    if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }

  std::string path;
  sqlite3* database = nullptr;
  sqlite3_int64 search = 0;
  std::mutex mutex;
};

namespace {

class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    if (sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK) {
      throw StoreError(sqlite3_errmsg(database));
    }
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int place, sqlite3_int64 value) { sqlite3_bind_int64(statement_, place, value); }
  void bind(int place, const std::string& text) {
    sqlite3_bind_text64(statement_, place, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  void bind(int place, const PlanCode& code) {
    sqlite3_bind_blob64(statement_, place, code.index.data(), sizeof(code.index), SQLITE_TRANSIENT);
  }
  // SQLITE_ROW, SQLITE_DONE or an error.
  int step() { return sqlite3_step(statement_); }
  void reset() { sqlite3_reset(statement_); }
  sqlite3_int64 integer(int column) { return sqlite3_column_int64(statement_, column); }
  // False when the blob is no code of this version.
  bool code(int column, PlanCode& code) {
    if (sqlite3_column_bytes(statement_, column) != static_cast<int>(sizeof(code.index))) {
      return false;
    }
    std::memcpy(code.index.data(), sqlite3_column_blob(statement_, column), sizeof(code.index));
    return true;
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

ResultStore::ResultStore(const std::string& path, const std::string& key)
    : state_(std::make_unique<State>(path)) {
  state_->run(kSchema);
  Statement insert(state_->database, "INSERT OR IGNORE INTO searches (key) VALUES (?)");
  insert.bind(1, key);
  if (insert.step() != SQLITE_DONE) state_->fail();
  Statement find(state_->database, "SELECT id FROM searches WHERE key = ?");
  find.bind(1, key);
  if (find.step() != SQLITE_ROW) state_->fail();
  state_->search = find.integer(0);
}

ResultStore::~ResultStore() = default;

std::vector<StoredTime> ResultStore::load() const {
  const std::lock_guard lock(state_->mutex);
  Statement select(state_->database, "SELECT plan, nanoseconds FROM step_times WHERE search = ?");
  select.bind(1, state_->search);
  std::vector<StoredTime> times;
  int result = select.step();
  for (; result == SQLITE_ROW; result = select.step()) {
    StoredTime time;
    if (!select.code(0, time.code)) continue;
    time.time = {select.integer(1)};
    times.push_back(time);
  }
  if (result != SQLITE_DONE) state_->fail();
  // SQLite orders blobs by their bytes, not by the numbers in them.
  std::sort(times.begin(), times.end());
  return times;
}

void ResultStore::add(std::span<const StoredTime> times) {
  const std::lock_guard lock(state_->mutex);
  state_->run("BEGIN IMMEDIATE");
  Statement insert(
      state_->database,
      "INSERT OR REPLACE INTO step_times (search, plan, nanoseconds) VALUES (?, ?, ?)");
  for (const StoredTime& time : times) {
    insert.bind(1, state_->search);
    insert.bind(2, time.code);
    insert.bind(3, sqlite3_int64{time.time.ns});
    if (insert.step() != SQLITE_DONE) state_->fail();
    insert.reset();
  }
  state_->run("COMMIT");
}

void ResultStore::clear() {
  const std::lock_guard lock(state_->mutex);
  Statement remove(state_->database, "DELETE FROM step_times WHERE search = ?");
  remove.bind(1, state_->search);
  if (remove.step() != SQLITE_DONE) state_->fail();
}

}  // namespace megatwin::sim
