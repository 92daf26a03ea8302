/*
 * Who holds a worker ID, and how far it has issued: rules U1 to U4 of leafd, with a
 * ZooKeeper that keeps its data. README.md says what is covered and how to read it.
 *
 * The time line of each worker ID is cut into pieces [floor, limit), each owned by one
 * instance, which is a data directory. No (worker ID, time) may be issued twice.
 *
 * Each option of a process is one event, and happens as a whole. An event that doesn't
 * come is a crash, a frozen process or a network that is cut.
 *
 * Clocks: wherever a daemon reads one, every value is possible. So the limit of another
 * instance may always seem to have passed, a new limit may be any, and a daemon may
 * issue any time that the rules leave it.
 *
 * Versions: "current" in a process means that the version it knows is the entry's. A
 * write takes that from all other processes, and a lost answer from the writer too.
 */

#ifndef T
#define T 2     /* times 0 to T-1 can be issued; floors, limits and ceilings go up to T */
#endif
#ifndef IDS
#define IDS 1   /* worker IDs, 1 or 2 */
#endif
#define DIRS 2  /* data directories, each on a machine of its own */

#define NONE  IDS /* no worker ID */
#define FRESH 7   /* a life that nothing names yet */

/* What stands in ZooKeeper for a worker ID. One that was never given is as one with limit 0. */
typedef Entry {
  unsigned holders : 2; /* the directories that are the entry's instance; none: a lost directory */
  unsigned owner : 3;   /* the life that wrote it */
  unsigned floor : 3;
  unsigned limit : 3;
  unsigned ceiling : 3;
#ifdef M_STOPPED_LOWERED
  bit stopped
#endif
}

/* What a data directory has on its disk. */
typedef Record {
  unsigned number : 2 = NONE;
  unsigned floor : 3;
  unsigned limit : 3;
  unsigned ceiling : 3;
  unsigned acked : 3;   /* the last life that ZooKeeper is known to have taken */
  unsigned current : 3; /* the life that may have written since */
  bit released;
  bit elsewhere;        /* the home it names is not where it lies */
  bit gone              /* the operator's word: it will never start again */
}

/* What a process has in memory. */
typedef Process {
  unsigned phase : 3;
  unsigned number : 2 = NONE;
  unsigned floor : 3;
  unsigned limit : 3;
  unsigned next : 3;    /* nothing below is issued any more */
  bit current;          /* knows the version of its entry */
  bit entered           /* its life is in the record */
}
#define DOWN      0
#define BOOT      1 /* has the directory's lock */
#define ASK       2 /* has read the entry that it is about to write */
#define RESUMED   3 /* ZooKeeper has taken its claim of its own entry */
#define CLAIMED   4 /* ZooKeeper has taken its claim of another worker ID */
#define RUN       5
#define RELEASING 6 /* its file is marked released */

Entry entry[IDS];
Record record[DIRS];
Process process[DIRS];
byte issued[IDS];       /* a bit for each time */
unsigned twins : 2;     /* the directories that are copies of each other */
bit copied;

#define E entry[process[me].number]
#define R record[me]
#define P process[me]
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define SAME(d) ((twins >> (d) & 1) -> twins : (1 << (d)))
#define HOLDS(d, n) (entry[n].holders >> (d) & 1)
#if IDS == 1
#define HOLDS_ANY(d) HOLDS(d, 0)
#else
#define HOLDS_ANY(d) (HOLDS(d, 0) || HOLDS(d, 1))
#endif
#ifdef M_OWNER
#define KNOWN(d, n) true
#else
#define KNOWN(d, n) (entry[n].owner == record[d].acked || entry[n].owner == record[d].current)
#endif

/* An event for each value that a clock may have shown, and for an answer that comes or is lost. */
#if T == 2
#define EACH_TIME(event) event(0) event(1)
#define EACH_BOUND(event) event(0) event(1) event(2)
#define EACH_WRITE(event) event(0, 0) event(0, 1) event(1, 0) event(1, 1) event(2, 0) event(2, 1)
#elif T == 3
#define EACH_TIME(event) event(0) event(1) event(2)
#define EACH_BOUND(event) event(0) event(1) event(2) event(3)
#define EACH_WRITE(event) event(0, 0) event(0, 1) event(1, 0) event(1, 1) event(2, 0) event(2, 1) event(3, 0) event(3, 1)
#else
#define EACH_TIME(event) event(0) event(1) event(2) event(3)
#define EACH_BOUND(event) event(0) event(1) event(2) event(3) event(4)
#define EACH_WRITE(event) event(0, 0) event(0, 1) event(1, 0) event(1, 1) event(2, 0) event(2, 1) event(3, 0) event(3, 1) event(4, 0) event(4, 1)
#endif
#if IDS == 1
#define EACH_ID(event) event(0)
#else
#define EACH_ID(event) event(0) event(1)
#endif

/* Scratch, 0 between events. */
byte i, j, x;
int names; /* three bits for the new name of each life, 0 while it has none */

inline rename(life) {
  if
  :: life == 0
  :: else ->
     if
     :: (names >> (3 * life) & 7) == 0 -> x++; names = names | x << (3 * life)
     :: else
     fi;
     life = names >> (3 * life) & 7
  fi
}

/* Ends an event: what nothing depends on is forgotten, and the lives are numbered in
   the order in which they stand, so that equal states look equal. */
inline tidy() {
  x = 0;
  for (i : 0 .. DIRS - 1) {
    if
    :: HOLDS_ANY(i)
    :: else -> record[i].acked = 0; record[i].current = 0
    fi;
    rename(record[i].acked);
    rename(record[i].current)
  }
  for (i : 0 .. IDS - 1) {
    if
    :: entry[i].holders
    :: else -> entry[i].owner = 0
    fi;
    rename(entry[i].owner)
  }
  i = 0; x = 0; names = 0
}

/* Somebody has written the entry: all other processes know an old version. */
inline written(id, by) {
  for (j : 0 .. DIRS - 1) {
    if
    :: j != by && process[j].number == id -> process[j].current = 0
    :: else
    fi
  }
  j = 0
}

inline forget(d, where) {
  process[d].phase = where;
  process[d].number = NONE;
  process[d].floor = 0;
  process[d].limit = 0;
  process[d].next = 0;
  process[d].current = 0;
  process[d].entered = 0
}

/* A new instance in directory d: after a loss, or instead of a copy that is set aside. */
inline new_instance(d) {
  if
  :: twins >> d & 1 -> twins = 0
  :: else
  fi;
  for (j : 0 .. IDS - 1) { entry[j].holders = entry[j].holders & ~(1 << d) }
  j = 0;
  record[d].number = NONE;
  record[d].floor = 0;
  record[d].limit = 0;
  record[d].ceiling = 0;
  record[d].acked = 0;
  record[d].current = 0;
  record[d].released = 0;
  record[d].elsewhere = 0
}

#ifdef M_FILE_CEILING
#define FILE_CEILING 0
#else
#define FILE_CEILING R.ceiling
#endif
#ifdef M_FLOOR
#define FLOOR 0
#else
#define FLOOR P.floor
#endif
#ifdef M_LIMIT
#define BELOW_LIMIT(t) true
#else
#define BELOW_LIMIT(t) ((t) < P.limit)
#endif
#ifdef M_CEILING
#define BELOW_CEILING(t) true
#else
#define BELOW_CEILING(t) ((t) < R.ceiling)
#endif
#ifdef M_LIMIT_LOWERED
#define LOWEST_CLAIM P.floor
#define LOWEST_REPORT P.floor
#else
#define LOWEST_CLAIM (HOLDS(me, P.number) -> E.limit : P.floor)
#define LOWEST_REPORT P.limit
#endif
#ifdef M_CLAIM
#define MAY_CLAIM true
#elif defined(M_PARENT)
#define MAY_CLAIM (P.current || P.floor == 0)
#else
#define MAY_CLAIM P.current
#endif
#ifdef M_REPORT
#define MAY_REPORT true
#else
#define MAY_REPORT P.current
#endif

#ifdef M_CURRENT_EARLY
#define NEW_LIFE skip
#else
#define NEW_LIFE R.current = FRESH
#endif
#ifdef BLIND_COPY
#define READ_OWN(n) READ_KNOWN(n, KNOWN(me, n)) \
  :: d_step { P.phase == BOOT && HOLDS(me, n) && !KNOWN(me, n) -> \
       printf("daemon %d finds its instance in entry %d under a life that it doesn't know: its directory is a copy, set aside\n", me, n); \
       new_instance(me); tidy() }
#else
/* Where no copy looks like its original, no directory is taken for a copy. */
bit lost;
#define READ_OWN(n) READ_KNOWN(n, true)
#endif
#define READ_KNOWN(n, known) \
  :: d_step { P.phase == BOOT && HOLDS(me, n) && known -> \
       printf("daemon %d reads its own entry of worker ID %d: [%d,%d), ceiling %d\n", me, n, entry[n].floor, entry[n].limit, entry[n].ceiling); \
       CHECK_LIFE(n); \
       R.acked = entry[n].owner; NEW_LIFE; P.phase = ASK; P.number = n; P.floor = entry[n].floor; P.current = 1; P.entered = 1; tidy() }
#ifdef BLIND_COPY
#define CHECK_LIFE(n) skip
#else
#define CHECK_LIFE(n) lost = !KNOWN(me, n); assert(!lost)
#endif

#define READ_OTHER(n, v) \
       P.phase = ASK; P.number = n; P.floor = v; P.current = 1; tidy() }
#ifdef M_FLOOR_NOW
#define TAKE(n, v) \
  :: d_step { P.phase == BOOT && !HOLDS_ANY(me) -> \
       printf("daemon %d reads entry %d, whose limit %d has passed by its clock, to take it with floor %d\n", me, n, entry[n].limit, v); READ_OTHER(n, v)
#define READ_FREE(n) TAKE(n, 0) TAKE(n, 1) TAKE(n, 2)
#else
#define READ_FREE(n) \
  :: d_step { P.phase == BOOT && !HOLDS_ANY(me) -> \
       printf("daemon %d reads entry %d, free or with a limit that has passed by its clock, to take it with floor %d\n", me, n, entry[n].limit); READ_OTHER(n, entry[n].limit)
#endif

#define CLAIM(l, answered) \
  :: d_step { P.phase == ASK && MAY_CLAIM && l >= LOWEST_CLAIM -> \
       printf("daemon %d claims worker ID %d: [%d,%d)", me, P.number, P.floor, l); \
       if \
       :: HOLDS(me, P.number) -> x = RESUMED \
       :: else -> x = CLAIMED; E.ceiling = P.floor; R.acked = 0; R.current = FRESH \
       fi; \
       E.holders = SAME(me); E.owner = R.current; E.floor = P.floor; E.limit = l; STOPPED(P.number, 0); \
       written(P.number, me); \
       if \
       :: answered -> printf("\n"); P.phase = x; P.limit = l; P.next = MAX(FILE_CEILING, MAX(FLOOR, E.ceiling)); P.current = 1; P.entered = 1 \
       :: else -> printf(", and the answer is lost\n"); forget(me, BOOT) \
       fi; \
       tidy() }

#define RAISE_CEILING(c) \
  :: d_step { P.phase == RUN && c > R.ceiling -> \
       printf("daemon %d: ceiling %d is in its file\n", me, c); R.ceiling = c }

#define ISSUE(t) \
  :: d_step { P.phase == RUN && t >= P.next && BELOW_LIMIT(t) && BELOW_CEILING(t) -> \
       printf("daemon %d ISSUES worker ID %d, time %d\n", me, P.number, t); \
       assert(!(issued[P.number] >> t & 1)); \
       issued[P.number] = issued[P.number] | (1 << t); P.next = t + 1 }

#define REPORT(l, answered) \
  :: d_step { P.phase == RUN && MAY_REPORT && l >= LOWEST_REPORT -> \
       printf("daemon %d reports worker ID %d: [%d,%d), ceiling %d", me, P.number, P.floor, l, MAX(R.ceiling, P.floor)); \
       E.holders = SAME(me); E.owner = R.current; E.floor = P.floor; E.limit = l; E.ceiling = MAX(R.ceiling, P.floor); STOPPED(P.number, 0); \
       written(P.number, me); \
       if \
       :: answered -> printf("\n"); P.limit = l \
       :: else -> printf(", and the answer is lost\n"); P.current = 0 \
       fi; \
       tidy() }

#ifdef M_STOPPED_LOWERED
#define STOPPED(n, v) entry[n].stopped = v
#else
#define STOPPED(n, v) skip
#endif

active [DIRS] proctype daemon() {
#define me _pid
end:
  do
  :: d_step { P.phase == DOWN && !R.gone ->
#if defined(COPY) && !defined(M_HOME)
       if
       :: R.elsewhere -> printf("daemon %d starts in a directory of another home: a copy, set aside\n", me); new_instance(me)
       :: else -> printf("daemon %d starts\n", me)
       fi;
#else
       printf("daemon %d starts\n", me);
#endif
#ifdef M_CURRENT_EARLY
       R.current = FRESH;
#endif
       P.phase = BOOT; tidy() }

#ifndef CONNECTED
#ifdef M_RELEASED_OFFLINE
#define MAY_START_OFFLINE true
#else
#define MAY_START_OFFLINE !R.released
#endif
  :: d_step { P.phase == BOOT && R.number != NONE && MAY_START_OFFLINE ->
       printf("daemon %d starts without ZooKeeper from its file: worker ID %d, [%d,%d), ceiling %d\n", me, R.number, R.floor, R.limit, R.ceiling);
       P.phase = RUN; P.number = R.number; P.floor = R.floor; P.limit = R.limit; P.next = MAX(FILE_CEILING, FLOOR) }
#endif

  EACH_ID(READ_OWN)
  EACH_ID(READ_FREE)
  EACH_WRITE(CLAIM)
  :: d_step { P.phase == ASK && !P.current ->
       printf("daemon %d: conflict at its claim of worker ID %d\n", me, P.number);
       forget(me, BOOT) }

  /* A claim given up is left with limit = floor; nothing was issued in it. */
  :: d_step { P.phase == CLAIMED && P.current ->
       printf("daemon %d gives its claim of worker ID %d up: limit %d\n", me, P.number, P.floor);
       E.limit = P.floor; E.ceiling = P.floor; written(P.number, me); forget(me, DOWN) }
  :: d_step { (P.phase == CLAIMED || P.phase == RESUMED) ->
       printf("daemon %d files worker ID %d, [%d,%d), and runs from %d on\n", me, P.number, P.floor, P.limit, P.next);
       R.number = P.number; R.floor = P.floor; R.limit = P.limit; R.released = 0; R.acked = R.current; P.phase = RUN; tidy() }

  EACH_BOUND(RAISE_CEILING)
  EACH_TIME(ISSUE)
  EACH_WRITE(REPORT)
#ifdef M_LIMIT_FILED_EARLY
#define FILE_EARLY(l) \
  :: d_step { P.phase == RUN && l > P.limit -> \
       printf("daemon %d files limit %d; its report never arrives\n", me, l); R.limit = l }
  EACH_BOUND(FILE_EARLY)
#endif
#ifdef M_LIMIT_USED_EARLY
#define USE_EARLY(l) \
  :: d_step { P.phase == RUN && l > P.limit -> \
       printf("daemon %d sends limit %d and goes by it before the answer\n", me, l); P.limit = l }
  EACH_BOUND(USE_EARLY)
#endif
  :: d_step { P.phase == RUN && (R.limit != P.limit || R.floor != P.floor) ->
       printf("daemon %d files its piece [%d,%d)\n", me, P.floor, P.limit);
       R.limit = P.limit; R.floor = P.floor }

  /* After a lost answer, a conflict or a start without ZooKeeper. */
  :: d_step { P.phase == RUN && !P.current && HOLDS(me, P.number) && KNOWN(me, P.number) ->
       printf("daemon %d reads its entry again: [%d,%d)\n", me, E.floor, E.limit);
       R.acked = E.owner;
       if
       :: P.entered
       :: else -> R.current = FRESH; P.entered = 1
       fi;
       P.current = 1; P.limit = E.limit;
#ifndef M_FLOOR_LEFT
       P.floor = E.floor; P.next = MAX(P.next, E.floor);
#endif
       tidy() }
  :: d_step { P.phase == RUN && !P.current && !HOLDS(me, P.number) ->
       printf("daemon %d reads entry %d, and it is another's: fenced\n", me, P.number);
       R.number = NONE; R.floor = 0; R.limit = 0; R.released = 0; forget(me, BOOT) }
#ifdef BLIND_COPY
  :: d_step { P.phase == RUN && !P.current && HOLDS(me, P.number) && !KNOWN(me, P.number) ->
       printf("daemon %d reads entry %d, and finds a life that it doesn't know: fenced, its directory set aside\n", me, P.number);
       new_instance(me); forget(me, BOOT); tidy() }
#endif

  :: d_step { P.phase == RUN ->
       printf("daemon %d stops, its last time in its file alone\n", me);
       R.ceiling = MAX(P.next, R.floor); forget(me, DOWN) }
  :: d_step { P.phase == RUN && P.current ->
       printf("daemon %d stops, its last time in its file and its entry\n", me);
       R.ceiling = MAX(P.next, R.floor); E.ceiling = R.ceiling; STOPPED(P.number, 1); written(P.number, me); forget(me, DOWN) }

  /* --release-on-stop: the file first, then the entry. */
  :: d_step { P.phase == RUN ->
       printf("daemon %d stops with --release-on-stop, its file marked\n", me);
       R.ceiling = P.next;
#ifndef M_RELEASE_ORDER
       R.released = 1;
#endif
       P.phase = RELEASING }
  :: d_step { P.phase == RELEASING && P.current ->
       printf("daemon %d releases entry %d, limit %d\n", me, P.number, P.next);
       E.limit = P.next; E.ceiling = P.next; written(P.number, me); forget(me, DOWN) }

  :: d_step { P.phase != DOWN ->
       printf("daemon %d crashes\n", me);
       forget(me, DOWN) }
  :: d_step { P.phase == DOWN && !R.gone && R.number != NONE ->
       printf("directory %d is lost, and an empty one in its place\n", me);
       new_instance(me); tidy() }
#if defined(COPY) || defined(BLIND_COPY)
#define other (1 - me)
  :: d_step { !copied && R.number != NONE && process[other].phase == DOWN && !record[other].gone ->
       printf("directory %d is copied over directory %d\n", me, other);
       new_instance(other);
       record[other].number = R.number; record[other].floor = R.floor; record[other].limit = R.limit; record[other].ceiling = R.ceiling;
       record[other].acked = R.acked; record[other].current = R.current; record[other].released = R.released;
#ifdef COPY
       record[other].elsewhere = 1;
#endif
       for (j : 0 .. IDS - 1) { entry[j].holders = (HOLDS(me, j) -> entry[j].holders | (1 << other) : entry[j].holders) }
       j = 0; copied = 1; twins = 3; tidy() }
#endif
  od
}
