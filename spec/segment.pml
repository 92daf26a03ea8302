/*
 * The segment guard: the rules of leafd, which keep the ranges of one tag disjoint
 * although the database may take commits back. README.md says what is covered.
 *
 * The database proposes a range [lo, hi), and locks the row. It is used only after a write of
 * the tag's high mark in ZooKeeper, conditional on what was read there, then the commit, then
 * the mark on disk. No number may be used twice.
 *
 *   high-mark-decides  The transaction locks the row and reads high. A range [lo, hi) is used only after high =
 *      hi was written, conditional on what was read in the same session; then the commit; then
 *      the local mark. After a conflict high is read again. Without an answer, or after a
 *      failed commit, the range is given up.
 *   moved-forward  The range begins at the greatest of max_id, high and the local mark, and max_id is left
 *      at its end.
 *   marks-loaded-first  Marks are on disk before their numbers are used, and all are loaded at a start. Without
 *      --zk a table behind them is refused.
 *   raised-when-back  ZooKeeper away: with prefer a daemon goes on by marks-loaded-first, and first raises high when it is
 *      back (written); an unused range of that time is given up (back). With require it fetches
 *      nothing.
 *   deleted-mark-stays  A deleted tag's high mark stays, raised to the row's max_id (keep); made again the tag
 *      begins there (create).
 *
 * Each option of a process is one event, and happens as a whole. An event that doesn't
 * come is a frozen process, a network that is cut, or a ZooKeeper that is away. Nothing
 * counts events, so behaviours of any length are covered; the tag has few numbers.
 *
 * Faults, each as often as you like, and in every run a fetch that is given up, a crash
 * in it, a lost answer of ZooKeeper or of the commit, and a server that ends a transaction:
 *   LOSE      a table shows a lower value: lost commits, a backup, a failover
 *   REPLICAS  two servers, of which each may become a copy of the other, as it is then
 *   DELETE    the tag is deleted and made again, as leafd does it
 *   BY_HAND   the same by SQL, at 0
 *   LOST_DIR  a daemon's directory is lost, and it begins as a brand-new one
 *   COPIED    a brand-new daemon starts from a copy of another's directory
 *   REST      the unused range is kept in the directory over a clean stop
 *   ZK_LOSS   ZooKeeper shows a lower high mark: emptied, or restored from a backup
 *   PREFER    --segment-guard prefer, and ZooKeeper is away for one daemon or for all
 *   NO_ZK     leafd without --zk
 * M_ takes a rule out, X_ drops an exclusion.
 */

#ifndef DAEMONS
#define DAEMONS 2
#endif
#ifndef NUMBERS
#define NUMBERS 4
#endif
#ifndef STEPS
#define STEPS 1 /* the lengths of a range: 1 to STEPS */
#endif

#define IDLE      0
#define READ      1 /* has locked the row, and read high */
#define WRITTEN   2 /* has written high */
#define COMMITTED 3 /* the transaction is committed */
#define KEPT      4 /* stopped cleanly, with the range unused in its directory */
#define MARKING   5 /* M_MARK_LATE: has used the range, but not written the local mark */
#define UNGUARDED 6 /* has committed and marked a range without ZooKeeper */

typedef Daemon {
  byte phase;
  byte server;   /* of the fetch */
  byte current;  /* 1: it knows the version of high; 2: of an earlier session */
  byte lo;
  byte hi;
  byte mark;     /* on disk: it has used no number at or above */
  bit behind;    /* high may be below its mark */
  bit away       /* ZooKeeper can't be reached from here */
}

Daemon d[DAEMONS];
byte table[2];   /* max_id in each server */
byte lock[2];    /* the holder of the row in it: 1 + daemon, 0 for none */
byte high;
byte by = DAEMONS; /* the daemon that wrote high last, if that fetch still goes on */
byte used;       /* a bit for each number */
byte i;          /* 0 between the events */

#define me _pid
#define max(a, b) ((a) > (b) -> (a) : (b))

#if DAEMONS == 1
#define ANY(field, is, x) (d[0].field is x)
#elif DAEMONS == 2
#define ANY(field, is, x) (d[0].field is x || d[1].field is x)
#else
#define ANY(field, is, x) (d[0].field is x || d[1].field is x || d[2].field is x)
#endif
#define ANY_BEHIND (ANY(behind, ==, 1) || ANY(phase, ==, UNGUARDED))

inline use() {
  for (i : d[me].lo .. d[me].hi - 1) {
    assert((used >> i & 1) == 0);
    used = used | 1 << i
  }
  i = 0
}

/* The fetch is over. */
inline end_fetch() {
  if :: lock[d[me].server] == me + 1 -> lock[d[me].server] = 0 :: else fi;
  d[me].phase = IDLE; d[me].lo = 0; d[me].hi = 0; d[me].server = 0; d[me].current = 0;
  if :: by == me -> by = DAEMONS :: else fi
}

/* High is written: no daemon knows its version any more, nor does the writer: its answer may be lost. */
inline write(value, writer) {
  high = value; by = writer;
  for (i : 0 .. DAEMONS - 1) {
    if :: d[i].current == 1 -> d[i].current = 0 :: else fi
  }
  i = 0
}

/*
 * With `require` a daemon waits, after a loss of high marks, for all that survived it: neither
 * its own mark nor the table knows what others have used. With `prefer` it waits for nothing:
 * a fetch begins at or above its own mark, and so raises high above that.
 */
#if defined(ZK_LOSS) && !defined(PREFER) && !defined(M_WAIT)
#define READY (!d[me].away && !ANY_BEHIND)
#else
#define READY (!d[me].away)
#endif

/* moved-forward: where a transaction begins the range. */
#ifdef M_HIGH
#define BEGIN(server) max(table[server], d[me].mark)
#else
#define BEGIN(server) max(max(table[server], d[me].mark), high)
#endif

/* high-mark-decides: high is read while the row is locked. */
inline fetch(at, length) {
  d_step { d[me].phase == IDLE && READY && lock[at] == 0 && BEGIN(at) + length <= NUMBERS ->
    lock[at] = me + 1; d[me].server = at;
    d[me].lo = BEGIN(at); d[me].hi = d[me].lo + length; d[me].phase = READ; d[me].current = 1;
    printf("%c locks server %d, reads high %d, wants [%d,%d)\n", 65 + me, at, high, d[me].lo, d[me].hi) }
}

/* high-mark-decides: the write is conditional on the version at which high <= lo was read, in this session. */
#if defined(M_UNCONDITIONAL)
#define CURRENT true
#elif defined(M_SESSION)
#define CURRENT (d[me].current == 1 || d[me].current == 2 && high > 0)
#else
#define CURRENT (d[me].current == 1)
#endif

inline write_high() {
  d_step { d[me].phase == READ && !d[me].away && CURRENT ->
    write(d[me].hi, me);
    d[me].behind = 0; d[me].phase = WRITTEN; d[me].current = 0;
    printf("%c writes high %d\n", 65 + me, high) }
}

/* high-mark-decides: its range is given up, and the mark was not written. */
inline write_high_unanswered() {
  d_step { d[me].phase == READ && !d[me].away && d[me].current == 1 ->
    write(d[me].hi, DAEMONS);
    printf("%c writes high %d, the answer is lost, and it gives [%d,%d) up\n", 65 + me, high, d[me].lo, d[me].hi);
    end_fetch() }
}

/* high-mark-decides: after a conflict the range begins above high, in the same transaction. */
#ifdef M_COMPARE
#define RAISED d[me].lo
#else
#define RAISED max(d[me].lo, high)
#endif
inline read_again() {
  d_step { d[me].phase == READ && d[me].current != 1 && READY && RAISED + d[me].hi - d[me].lo <= NUMBERS ->
    d[me].hi = RAISED + d[me].hi - d[me].lo; d[me].lo = RAISED; d[me].current = 1;
    printf("%c reads high %d again, wants [%d,%d)\n", 65 + me, high, d[me].lo, d[me].hi) }
}

/* moved-forward: the table is moved forward. A transaction that the server has ended is not committed. */
inline commit() {
  d_step { d[me].phase == WRITTEN &&
#ifdef M_COMMIT
    true ->
    if :: lock[d[me].server] == me + 1 -> table[d[me].server] = d[me].hi; lock[d[me].server] = 0 :: else fi;
#else
    lock[d[me].server] == me + 1 ->
    table[d[me].server] = d[me].hi; lock[d[me].server] = 0;
#endif
    d[me].phase = COMMITTED;
    printf("%c commits [%d,%d) on server %d\n", 65 + me, d[me].lo, d[me].hi, d[me].server) }
}

/* high-mark-decides: the mark on disk comes before the use. */
inline mark_and_use() {
  d_step { d[me].phase == COMMITTED ->
    use();
#ifdef M_MARK_LATE
    d[me].phase = MARKING;
    printf("%c uses [%d,%d)\n", 65 + me, d[me].lo, d[me].hi)
#else
    d[me].mark = max(d[me].mark, d[me].hi);
    printf("%c writes its mark, uses [%d,%d)\n", 65 + me, d[me].lo, d[me].hi);
    end_fetch()
#endif
  }
}

/* The server is restarted, or has not heard of the daemon for three seconds. */
inline end_transaction(at) {
  d_step { lock[at] != 0 ->
    printf("server %d ends the transaction of %c\n", at, 64 + lock[at]);
    lock[at] = 0 }
}

/* High has to have what it was written to for a range under way, and else what is marked. */
#ifdef M_WRITTEN
#define UNDER_WAY(x) false
#else
#define UNDER_WAY(x) (d[x].phase == WRITTEN || d[x].phase == COMMITTED)
#endif

/* raised-when-back: first thing when ZooKeeper is back, and after it has lost data. */
inline raise_high() {
  d_step { d[me].behind && !d[me].away ->
    d[me].behind = 0;
#ifndef M_RAISE
    if
    :: UNDER_WAY(me) && high < d[me].hi -> write(d[me].hi, DAEMONS)
    :: !UNDER_WAY(me) && high < d[me].mark -> write(d[me].mark, DAEMONS)
    :: else
    fi;
#endif
    printf("%c has raised high, which is %d, to its mark\n", 65 + me, high) }
}

/*
 * raised-when-back: ZooKeeper is away, and the daemon goes on by its own mark alone (marks-loaded-first). Excluded is a
 * table behind what others have used, or are about to: only high would tell.
 */
#define TAKES(x) (d[x].phase >= COMMITTED && d[x].hi > table[0])
#if DAEMONS == 1
#define TABLE_BEHIND ((used >> table[0]) != 0 || TAKES(0))
#elif DAEMONS == 2
#define TABLE_BEHIND ((used >> table[0]) != 0 || TAKES(0) || TAKES(1))
#else
#define TABLE_BEHIND ((used >> table[0]) != 0 || TAKES(0) || TAKES(1) || TAKES(2))
#endif
#if defined(NO_ZK)
#define WITHOUT true
#elif defined(X_BEHIND)
#define WITHOUT d[me].away
#else
#define WITHOUT (d[me].away && !TABLE_BEHIND)
#endif
/* marks-loaded-first: a table behind the mark is refused. */
#ifdef M_REFUSE
#define REFUSED false
#else
#define REFUSED (table[0] < d[me].mark)
#endif

inline fetch_unguarded() {
  d_step { d[me].phase == IDLE && table[0] < NUMBERS && lock[0] == 0 && WITHOUT && !REFUSED ->
    d[me].lo = table[0]; d[me].hi = d[me].lo + 1; table[0] = d[me].hi; d[me].mark = d[me].hi; d[me].phase = UNGUARDED;
    printf("%c fetches [%d,%d) without ZooKeeper\n", 65 + me, d[me].lo, d[me].hi) }
}

/* raised-when-back: a range that was fetched without ZooKeeper, which is back, is given up. */
#if defined(NO_ZK) || defined(M_BACK)
#define STILL_AWAY true
#else
#define STILL_AWAY d[me].away
#endif

inline use_unguarded() {
  d_step { d[me].phase == UNGUARDED && STILL_AWAY ->
#ifdef PREFER
    d[me].behind = (d[me].behind || d[me].away);
#endif
    printf("%c uses [%d,%d) without ZooKeeper\n", 65 + me, d[me].lo, d[me].hi);
    use(); end_fetch() }
}

/* marks-loaded-first: marks are on disk before the numbers are used, and all of them are loaded at a start. */
#ifdef M_LOAD
#define FORGETS (d[me].mark > 0)
#else
#define FORGETS false
#endif

inline crash() {
  d_step { d[me].phase != IDLE && d[me].phase != KEPT || FORGETS ->
    end_fetch();
    if :: by == me -> by = DAEMONS :: else fi;
#ifdef M_LOAD
    d[me].mark = 0;
#endif
    printf("%c crashes, or gives its fetch up\n", 65 + me) }
}

/* Excluded: a directory is lost with marks that ZooKeeper doesn't have. */
#ifdef X_LOST_DIR
#define MAY_BE_LOST true
#else
#define MAY_BE_LOST (!d[me].behind)
#endif

inline lose_directory() {
  d_step { d[me].mark > 0 && MAY_BE_LOST ->
    end_fetch();
    d[me].mark = 0; d[me].behind = 0;
    printf("%c loses its directory, and begins as a new one\n", 65 + me) }
}

inline copy_directory(from, to) {
  d_step { d[to].phase == IDLE && d[to].mark == 0 && d[from].mark > 0 ->
    d[to].mark = d[from].mark; d[to].behind = d[from].behind;
#ifdef M_HOME
    if
    :: d[from].phase == KEPT -> d[to].phase = KEPT; d[to].lo = d[from].lo; d[to].hi = d[from].hi
    :: else
    fi;
#endif
    printf("%c starts from a copy of %c's directory\n", 65 + to, 65 + from) }
}

/* A range that no number of was used yet is kept, and taken out of the file before it is used. */
inline stop() {
  d_step { d[me].phase == COMMITTED ->
    d[me].mark = max(d[me].mark, d[me].hi); d[me].phase = KEPT;
    printf("%c writes its mark, stops, and keeps [%d,%d)\n", 65 + me, d[me].lo, d[me].hi) }
}

inline start() {
  d_step { d[me].phase == KEPT ->
    printf("%c starts, and uses the kept [%d,%d)\n", 65 + me, d[me].lo, d[me].hi);
#ifdef M_TAKE_OUT
    use()
#else
    use(); end_fetch()
#endif
  }
}

active [DAEMONS] proctype daemon() {
end:
  do
#ifdef NO_ZK
  :: fetch_unguarded()
  :: use_unguarded()
#else
  :: fetch(0, 1)
#if STEPS > 1
  :: fetch(0, 2)
#endif
#ifdef REPLICAS
  :: fetch(1, 1)
#endif
  :: write_high()
  :: write_high_unanswered()
  :: read_again()
  :: commit()
  :: mark_and_use()
#endif
#ifdef M_MARK_LATE
  :: d_step { d[me].phase == MARKING ->
      d[me].mark = max(d[me].mark, d[me].hi);
      printf("%c writes its mark %d\n", 65 + me, d[me].mark);
      end_fetch() }
#endif
#ifdef M_ANSWER
  :: d_step { d[me].phase == READ ->
      printf("%c's write of high is lost, and taken for done\n", 65 + me);
      d[me].phase = WRITTEN; d[me].current = 0 }
#endif
#ifdef M_AGAIN
  :: d_step { d[me].phase == WRITTEN && lock[d[me].server] == 0 && by == me && table[d[me].server] <= d[me].lo && READY ->
      lock[d[me].server] = me + 1;
      printf("%c proposes [%d,%d) again\n", 65 + me, d[me].lo, d[me].hi) }
#endif
#ifdef PREFER
  :: fetch_unguarded()
  :: use_unguarded()
  :: d_step { !d[me].away -> d[me].away = 1; printf("ZooKeeper is away for %c\n", 65 + me) }
  :: d_step { d[me].away -> d[me].away = 0; printf("ZooKeeper is back for %c\n", 65 + me) }
#endif
#if defined(PREFER) || defined(ZK_LOSS)
  :: raise_high()
#endif
#if !defined(NO_ZK) || defined(M_LOAD)
  :: crash()
#endif
#ifdef LOST_DIR
  :: lose_directory()
#endif
#ifdef REST
  :: stop()
  :: start()
#endif
  od
}

/*
 * Excluded with `prefer`: the database has lost commits, and high doesn't have their
 * numbers, because ZooKeeper is away or has just lost its own data.
 */
#if defined(PREFER) && !defined(X_LOSE)
#define MAY_LOSE !ANY_BEHIND
#define MAY_LOSE_HIGH !TABLE_BEHIND
#else
#define MAY_LOSE true
#define MAY_LOSE_HIGH true
#endif

inline lose_commit(server) {
  d_step { table[server] > 0 && MAY_LOSE ->
    table[server]--; lock[server] = 0;
    printf("server %d loses a commit: max_id %d\n", server, table[server]) }
}

inline replicate(from, to) {
  d_step { table[from] != table[to] ->
    table[to] = table[from]; lock[to] = 0;
    printf("server %d becomes a copy of the other: max_id %d\n", to, table[to]) }
}

/*
 * deleted-mark-stays: the row's max_id is kept in high while the deletion holds the row, as are the marks on
 * disk. Made again the tag begins at high.
 */
inline delete_tag() {
  d_step { table[0] > 0 && lock[0] == 0 ->
#ifndef M_KEEP
    if :: table[0] > high -> write(table[0], DAEMONS) :: else fi;
#endif
#ifdef M_DELETE
    write(0, DAEMONS);
#endif
#ifdef M_CREATE
    table[0] = 0;
#else
    table[0] = high;
#endif
    printf("the tag is deleted, and made again at %d\n", table[0]) }
}

inline delete_by_hand() {
  d_step { table[0] > 0 && lock[0] == 0 ->
    table[0] = 0;
    printf("the row is deleted, and made again at 0\n") }
}

/* Versions begin again, so that one read in an earlier session may come up a second time. */
inline lose_high() {
  d_step { high > 0 && MAY_LOSE_HIGH ->
    high--; by = DAEMONS;
    for (i : 0 .. DAEMONS - 1) {
#ifdef M_SESSION
      if :: d[i].current == 1 -> d[i].current = 2 :: else fi;
#else
      d[i].current = 0;
#endif
      d[i].behind = (d[i].mark > high || UNDER_WAY(i) && d[i].hi > high)
    }
    i = 0;
    printf("ZooKeeper loses data: high %d\n", high) }
}

active proctype world() {
end:
  do
#ifndef NO_ZK
  :: end_transaction(0)
#endif
#ifdef REPLICAS
  :: end_transaction(1)
#endif
#ifdef LOSE
  :: lose_commit(0)
#endif
#ifdef REPLICAS
  :: lose_commit(1)
  :: replicate(0, 1)
  :: replicate(1, 0)
#endif
#ifdef DELETE
  :: delete_tag()
#endif
#ifdef BY_HAND
  :: delete_by_hand()
#endif
#ifdef ZK_LOSS
  :: lose_high()
#endif
#ifdef COPIED
  :: copy_directory(0, 1)
  :: copy_directory(1, 0)
#endif
  od
}
