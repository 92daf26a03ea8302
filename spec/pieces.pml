/*
 * What the proof of worker IDs takes as given of a data directory: the two slots of its file,
 * copies that look like their original, files that are put back. ZooKeeper keeps its data, and
 * a worker ID is one entry, which is taken by a conditional write.
 *
 *   below-the-limit  An instance issues only times t with floor <= t < limit, both acknowledged by ZooKeeper
 *      in one conditional write of the worker ID's one path.
 *   floor-at-the-limit  A limit never falls, except by a release of its holder (file first, then the entry) or
 *      --force. A new piece begins at or above floor, limit and ceiling that stood there. A
 *      released record never resumes.
 *   ceiling-before-use  A time is used only below the ceiling fsynced in the instance's file. A start begins at
 *      or above that ceiling, the floor and the entry's ceiling; with a damaged slot, a ceiling
 *      lead later. A release marks both slots.
 *   one-directory  One process an instance. A directory is a copy where its record is of another directory
 *      or life than the lock's, where the owner in its entry is neither acked nor current, or
 *      where another life of its instance runs.
 *
 * The time line of each worker ID is cut into pieces [floor, limit), each owned by one
 * instance, which is a data directory. No (worker ID, time) may be issued twice.
 *
 * Each option of a process below is one event, and happens as a whole. A crash, a frozen
 * process and a network that is cut are events that do not come.
 *
 * Clocks: wherever a daemon reads one, every value is possible. So another's limit may
 * always seem to have passed, a new limit may be any, and a daemon may issue any time
 * that the rules leave it.
 *
 * Time: the model looks at one moment of one worker ID, any, and asks whether it is
 * issued twice. Floors, limits and ceilings are only compared with times and with each
 * other, so it suffices to know of each whether it lies beyond that moment: 1 if so. The
 * result then is that of a time line without end. In what is printed the moment is 0.
 *
 * Versions: "current" tells that the process knows the version of its entry. A write
 * takes that from all other processes, and a lost answer from the writer too.
 */

#define IDS 1  /* worker IDs */
#define DIRS 2 /* data directories */

#define NONE   IDS  /* no worker ID */
#define NO_DAEMON DIRS /* no daemon */
#define FRESH  7    /* a life that nothing names yet */

/* What stands in ZooKeeper for a worker ID. One never given is like one with limit 0. */
typedef Entry {
  unsigned holders : 3; /* the directories that are the entry's instance; 0: it is lost */
  unsigned owner : 3;   /* the life that wrote it */
  bit floor;
  bit limit;
  bit ceiling;
  bit released;
}
Entry entry[IDS + 1]; /* the last one, of NONE, stays empty */

/* What a data directory has on its disk. */
typedef Record {
  unsigned number : 2 = NONE;
  bit floor;
  bit limit;
  bit ceiling;
  unsigned acked : 3;   /* the last life that ZooKeeper is known to have taken */
  unsigned current : 3; /* the life that may have written since */
  bit claim;            /* it was claimed, and never confirmed */
  bit released;
#ifdef BACKUP
  bit restored;         /* it is of another life than the lock */
#endif
}
Record record[DIRS];

#if defined(SLOTS) || defined(BACKUP)
/* SLOTS: what the file's other slot has, the record before the last write of it.
   BACKUP: a copy of directory 0's file that was kept. */
Record older[DIRS];
bit kept[DIRS];
bit since[DIRS];        /* a life has begun since the copy was made */
#endif

/* What a process has in memory. */
typedef Process {
  unsigned phase : 3;
  unsigned number : 2 = NONE;
  bit floor;
  bit limit;
  bit next;             /* nothing below is issued any more */
  bit current;
  bit entered           /* its life is in the record */
}
Process process[DIRS];
#define IDLE      0 /* no process, or one that has not read anything yet */
#define RESUME    1 /* has read its own entry, and is about to prolong it */
#define ENROLL    2 /* has read the entry that it is about to claim */
#define SETTLING  3 /* ZooKeeper has taken its claim, and the file has it */
#define RUN       4
#define RELEASING 5 /* its file is marked released */

bit issued;             /* the moment, under worker ID 0 */
bit copied;
unsigned twins : 3;     /* the directories that are copies of each other, 0 and 1 or none */
bit lost;


#define me _pid /* the daemon, and its directory */
#define P process[me]
#define R record[me]
#define E entry[process[me].number]
#define MAX(a, b) ((a) | (b))
#define SAME(d) ((twins >> (d) & 1) -> twins : (1 << (d)))
#define HOLDS(d, n) (entry[n].holders >> (d) & 1)
#define EACH_ID(event) event(0)
#define HOLDS_ANY(d) HOLDS(d, 0)

/* An event for each limit that a clock may lead to, and for an answer that comes, or is
   lost. */
#define ANSWERED 0
#define UNANSWERED 1
#define EACH_OUTCOME(event) event(ANSWERED) event(UNANSWERED)
#define EACH_WRITE(event) event(0, ANSWERED) event(1, ANSWERED) event(0, UNANSWERED) event(1, UNANSWERED)

/* Scratch, 0 between events. */
byte i, j, x;
int names; /* three bits for the new name of each life, 0 while it has none */
bit overflow;

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

/* Ends an event: what nothing depends on is forgotten, and the lives of each instance
   are numbered in the order in which they stand, so that equal states look equal. */
inline tidy() {
  for (i : 0 .. DIRS - 1) {
    if
    :: i == 1 && twins
    :: else -> names = 0; x = 0
    fi;
    if
    :: HOLDS_ANY(i)
    :: else -> record[i].acked = 0; record[i].current = 0
    fi;
    rename(record[i].acked);
    rename(record[i].current);
#if defined(SLOTS) || defined(BACKUP)
    if
    :: HOLDS_ANY(i)
    :: else -> older[i].acked = 0; older[i].current = 0
    fi;
    rename(older[i].acked);
    rename(older[i].current);
#endif
    for (j : 0 .. IDS - 1) {
      if
      :: entry[j].holders == 0 -> entry[j].owner = 0
      :: HOLDS(i, j) && (entry[j].holders & ((1 << i) - 1)) == 0 -> rename(entry[j].owner)
      :: else
      fi
    }
    overflow = x >= FRESH; assert(!overflow)
  }
  i = 0; j = 0; x = 0; names = 0
}

/* The entry was written: all others know an old version, and what was sent on
   condition of it will be refused. */
inline written(id, by) {
  for (j : 0 .. DIRS - 1) {
    if
    :: j != by && process[j].number == id -> process[j].current = 0
    :: else
    fi;
  }
  j = 0
}

/* Daemon me has sent what is to stand in the entry of its worker ID. */
inline send(new_limit, new_ceiling, outcome) {
  E.holders = SAME(me); E.owner = R.current; E.floor = P.floor; E.limit = new_limit; E.ceiling = new_ceiling;
  E.released = (P.phase == RELEASING);
  written(P.number, me)
}

inline end_process(d) {
  process[d].phase = IDLE; process[d].number = NONE; process[d].floor = 0; process[d].limit = 0;
  process[d].next = 0; process[d].current = 0; process[d].entered = 0
}

#if defined(SLOTS) || defined(BACKUP)
inline keep(d) {
  older[d].number = record[d].number; older[d].floor = record[d].floor; older[d].limit = record[d].limit; older[d].ceiling = record[d].ceiling;
  older[d].acked = record[d].acked; older[d].current = record[d].current; older[d].claim = record[d].claim; older[d].released = record[d].released;
  kept[d] = 1
}
inline put_back(d) {
  record[d].number = older[d].number; record[d].floor = older[d].floor; record[d].limit = older[d].limit; record[d].ceiling = older[d].ceiling;
  record[d].acked = older[d].acked; record[d].current = older[d].current; record[d].claim = older[d].claim; record[d].released = older[d].released
}
#endif
#ifdef SLOTS
#define WRITE_SLOT keep(me)
#else
#define WRITE_SLOT skip
#endif
#ifdef BACKUP
#define BEGIN_LIFE since[me] = kept[me]
#define RECORD_IS_OURS R.restored = 0
#else
#define BEGIN_LIFE skip
#define RECORD_IS_OURS skip
#endif

/* Directory d begins as a new instance: it was lost, or is a copy and set aside. */
inline new_instance(d) {
  if
  :: twins >> d & 1 -> twins = 0
  :: else
  fi;
  for (j : 0 .. IDS - 1) { entry[j].holders = entry[j].holders & ~(1 << d) }
  j = 0;
#if defined(SLOTS) || defined(BACKUP)
  kept[d] = 0; since[d] = 0; older[d].number = NONE; older[d].floor = 0; older[d].limit = 0; older[d].ceiling = 0;
  older[d].acked = 0; older[d].current = 0; older[d].claim = 0; older[d].released = 0;
#endif
#ifdef BACKUP
  record[d].restored = 0;
#endif
  record[d].number = NONE; record[d].floor = 0; record[d].limit = 0; record[d].ceiling = 0;
  record[d].acked = 0; record[d].current = 0; record[d].claim = 0; record[d].released = 0
}

/* M_...: one rule taken out. */
#if   defined(BACKUP) && !defined(M_RESTORED_OFFLINE) && !defined(M_RESTORED_RESUMES)
#define SEEN_FOREIGN R.restored
#else
#define SEEN_FOREIGN false
#endif
#define STARTS (P.phase == IDLE && !SEEN_FOREIGN)
#if   defined(M_RESTORED_RESUMES)
#define MAY_START_OFFLINE (!R.claim && !R.released && !R.restored)
#else
#define MAY_START_OFFLINE (!R.claim && !R.released)
#endif
#ifdef M_OWNER
#define KNOWN(n) true
#elif defined(M_CURRENT_ONLY)
#define KNOWN(n) (entry[n].owner == R.current)
#elif defined(M_ACKED_ONLY)
#define KNOWN(n) (entry[n].owner == R.acked)
#else
#define KNOWN(n) (entry[n].owner == R.acked || entry[n].owner == R.current)
#endif
#ifdef M_CURRENT_EARLY
#define NEW_LIFE skip
#else
#define NEW_LIFE R.current = FRESH
#endif
#define FILE_CEILING R.ceiling
#ifdef M_ENTRY_CEILING
#define ENTRY_CEILING 0
#else
#define ENTRY_CEILING E.ceiling
#endif
#define FLOOR P.floor
#define BELOW_LIMIT P.limit
#define BELOW_CEILING R.ceiling
#define LOWEST_LIMIT MAX(P.limit, E.limit)
#define FILE_FLOOR R.floor = P.floor

/* What is taken for granted of a copy that looks like its original:
   ONLINE     neither starts without ZooKeeper;
   COLD       it is made while no process runs;
   CONNECTED  ONLINE, and one that runs shows in ZooKeeper to another that starts: it
              reports while that one watches its ephemeral node and its entry;
   TOLD       what its file has is in the entry before it ends. */
#if defined(CONNECTED) && !defined(M_EPHEMERAL)
#define TWIN_RUNS (twins && me < 2 && process[1 - me].phase != IDLE)
#else
#define TWIN_RUNS false
#endif
#ifdef TOLD
#define MAY_END (P.phase < RUN || !HOLDS(me, P.number) || R.ceiling <= E.ceiling)
#else
#define MAY_END true
#endif
#ifdef COLD
#define MAY_COPY (P.phase == IDLE)
#else
#define MAY_COPY true
#endif

/* Elsewhere no directory may be taken for a copy. */
#if defined(BLIND) || defined(M_HOME) || defined(SLOTS) || defined(M_RESTORED_OFFLINE) || defined(M_RESTORED_RESUMES) || defined(M_SAME_LIFE)
#define SET_ASIDE new_instance(me)
#else
#define SET_ASIDE lost = 1; assert(!lost)
#endif

/* What the entry at the path of the record's worker ID is to the record. */
#define OWN     HOLDS(me, R.number)
#define RECORD  (R.number != NONE && !R.claim)
#define COPIED  (RECORD && OWN && !KNOWN(R.number))
#define FORCED  (!R.released && entry[R.number].released)
#define ANOTHER (RECORD && !R.released && (!OWN || KNOWN(R.number) && FORCED))
#define ENROLLS (!RECORD || R.released && !OWN || OWN && KNOWN(R.number))
#define RESUMES (R.number != NONE && OWN && KNOWN(R.number) && !R.released && !FORCED)

/* The life that is about to write, in the file before it does. */
#define NAME_LIFE \
  if \
  :: OWN && KNOWN(R.number) -> R.acked = entry[R.number].owner \
  :: else \
  fi; \
  NEW_LIFE; P.entered = 1

#define FLOOR_ON(n) (entry[n].floor | entry[n].limit | entry[n].ceiling | (HOLDS(me, n) && R.number == n -> R.floor | R.limit : 0))
#define READ(n, v) \
  :: d_step { STARTS && ENROLLS && !TWIN_RUNS -> \
       printf("daemon %d starts, and reads worker ID %d, free, or with a limit (%d) that has passed by its clock, to claim it with floor %d\n", me, n, entry[n].limit, v); \
       WRITE_SLOT; BEGIN_LIFE; NAME_LIFE; \
       P.phase = ENROLL; P.number = n; P.floor = v; P.limit = v; P.current = 1; tidy() }
#define READ_OTHER(n) READ(n, FLOOR_ON(n))

#define CLAIM(outcome) \
  :: d_step { P.phase == ENROLL && P.current -> \
       printf("daemon %d claims worker ID %d: [%d,%d)", me, P.number, P.floor, P.floor); \
       if \
       :: R.current == 0 -> R.current = FRESH \
       :: else \
       fi; \
       send(P.floor, R.ceiling, outcome); \
       P.current = 1; \
       if \
       :: outcome == ANSWERED -> printf(", and files that\n"); \
          WRITE_SLOT; RECORD_IS_OURS; P.phase = SETTLING; \
          R.number = P.number; FILE_FLOOR; R.limit = P.floor; R.claim = 1; R.released = 0; R.acked = R.current; \
          R.ceiling = MAX(R.ceiling, P.floor) \
       :: outcome == UNANSWERED -> printf(", and the answer is lost\n"); end_process(me) \
       fi; \
       tidy() }

/* A claim that has settled becomes active; a resume prolongs the entry. */
#define BEGIN(l, outcome) \
  :: d_step { (P.phase == SETTLING && P.current || P.phase == RESUME && P.current) && l >= LOWEST_LIMIT -> \
       P.next = MAX(FILE_CEILING, MAX(FLOOR, ENTRY_CEILING)); P.limit = l; \
       printf("daemon %d has worker ID %d: [%d,%d)", me, P.number, P.floor, l); \
       send(l, MAX(R.ceiling, P.next), outcome); \
       if \
       :: outcome == ANSWERED -> printf(", files that, and runs\n"); \
          WRITE_SLOT; RECORD_IS_OURS; P.phase = RUN; P.current = 1; \
          R.number = P.number; FILE_FLOOR; R.limit = l; R.claim = 0; R.released = 0; R.acked = R.current \
       :: outcome == UNANSWERED -> printf(", and the answer is lost\n"); end_process(me) \
       fi; \
       tidy() }

#define REPORT(l, outcome) \
  :: d_step { P.phase == RUN && P.current && l >= LOWEST_LIMIT -> \
       printf("daemon %d reports worker ID %d: [%d,%d), ceiling %d", me, P.number, P.floor, l, MAX(R.ceiling, P.next)); \
       send(l, MAX(R.ceiling, P.next), outcome); \
       if \
       :: outcome == ANSWERED -> printf("\n"); P.limit = l \
       :: outcome == UNANSWERED -> printf(", and the answer is lost\n"); P.current = 0 \
       fi; \
       tidy() }

active [DIRS] proctype daemon() {
end:
  do
  /* Starts. */
#if (defined(COPY) || defined(BACKUP)) && !defined(M_HOME) && !defined(M_RESTORED_OFFLINE) && !defined(M_RESTORED_RESUMES)
  :: d_step { P.phase == IDLE && SEEN_FOREIGN ->
       printf("daemon %d starts, and finds a record of another home, or of another life than its lock's: its directory is set aside\n", me);
       new_instance(me); tidy() }
#endif
#ifdef M_CURRENT_EARLY
  :: d_step { STARTS && OWN ->
       printf("daemon %d starts, and crashes before it has read anything\n", me);
       R.current = FRESH; tidy() }
#endif
#if defined(CONNECTED) && !defined(M_EPHEMERAL)
  :: d_step { STARTS && TWIN_RUNS ->
       printf("daemon %d starts, and finds that another process of its instance runs: its directory is set aside\n", me);
       new_instance(me); tidy() }
#endif
#if !defined(ONLINE) && !defined(CONNECTED)
  :: d_step { STARTS && R.number != NONE && MAY_START_OFFLINE ->
       printf("daemon %d starts without ZooKeeper from its file: worker ID %d, [%d,%d), ceiling %d\n", me, R.number, R.floor, R.limit, R.ceiling);
       BEGIN_LIFE; P.phase = RUN; P.number = R.number; P.floor = R.floor; P.limit = R.limit; P.next = MAX(FILE_CEILING, FLOOR) }
#endif
  :: d_step { STARTS && COPIED ->
       printf("daemon %d starts, and finds a life that it doesn't know in the entry of worker ID %d: its directory is set aside\n", me, R.number);
       SET_ASIDE; tidy() }
  :: d_step { STARTS && ANOTHER ->
       printf("daemon %d starts, and finds worker ID %d another's, or released by an operator: its file forgets it\n", me, R.number);
       WRITE_SLOT; R.number = NONE; R.floor = 0; R.limit = 0; tidy() }
  :: d_step { STARTS && RESUMES && !TWIN_RUNS ->
       printf("daemon %d starts, and reads its own entry of worker ID %d: [%d,%d), ceiling %d\n", me, R.number, entry[R.number].floor, entry[R.number].limit, entry[R.number].ceiling);
       WRITE_SLOT; BEGIN_LIFE; NAME_LIFE;
       P.phase = RESUME; P.number = R.number; P.floor = MAX(R.floor, E.floor); P.limit = R.limit; P.current = 1; tidy() }
  EACH_ID(READ_OTHER)
  EACH_OUTCOME(CLAIM)
  EACH_WRITE(BEGIN)
  :: d_step { (P.phase == RESUME || P.phase == ENROLL || P.phase == SETTLING) && !P.current ->
       printf("daemon %d: conflict about worker ID %d\n", me, P.number);
       end_process(me) }

  /* Runs. */
  :: d_step { P.phase == RUN && !R.ceiling ->
       printf("daemon %d files ceiling 1\n", me);
       WRITE_SLOT; R.ceiling = 1 }
  :: d_step { P.phase == RUN && P.number == 0 && P.next == 0 && BELOW_LIMIT && BELOW_CEILING ->
       printf("daemon %d ISSUES worker ID 0, time 0\n", me);
       assert(!issued);
       issued = 1; P.next = 1 }
  :: d_step { P.phase == RUN && P.next == 0 && BELOW_LIMIT && BELOW_CEILING ->
       printf("daemon %d issues a later time\n", me);
       P.next = 1 }
  EACH_WRITE(REPORT)
  :: d_step { P.phase == RUN && R.limit != P.limit ->
       printf("daemon %d files its piece [%d,%d)\n", me, P.floor, P.limit);
       WRITE_SLOT; R.limit = P.limit }

  /* Reads again: after a lost answer, a conflict, or a start without ZooKeeper. */
  :: d_step { P.phase == RUN && !P.current && OWN && KNOWN(P.number) && !E.released ->
       printf("daemon %d reads its entry again: [%d,%d)\n", me, E.floor, E.limit);
       WRITE_SLOT; R.acked = E.owner;
       if
       :: P.entered
       :: else -> R.current = FRESH; P.entered = 1
       fi;
       P.current = 1; tidy() }
  :: d_step { P.phase == RUN && !P.current && (!OWN || KNOWN(P.number) && E.released) ->
       printf("daemon %d reads entry %d again, and it is another's, or released by an operator: fenced\n", me, P.number);
       end_process(me) }
  :: d_step { P.phase == RUN && !P.current && OWN && !KNOWN(P.number) ->
       printf("daemon %d reads its entry again, and finds a life that it doesn't know: fenced, its directory set aside\n", me);
       SET_ASIDE; end_process(me); tidy() }

  /* Ends. */
  :: d_step { P.phase == RUN && MAY_END ->
       printf("daemon %d stops, ceiling %d in its file alone\n", me, MAX(P.next, R.floor));
       WRITE_SLOT; R.ceiling = MAX(P.next, R.floor); end_process(me) }
  :: d_step { P.phase == RUN && P.current ->
       printf("daemon %d stops, ceiling %d in its file and its entry\n", me, MAX(P.next, R.floor));
       WRITE_SLOT; R.ceiling = MAX(P.next, R.floor); send(LOWEST_LIMIT, R.ceiling, ANSWERED);
       end_process(me); tidy() }
  :: d_step { P.phase == RUN ->
       printf("daemon %d stops with --release-on-stop, its file is marked\n", me);
       WRITE_SLOT; R.ceiling = P.next;
       R.released = 1;
#if defined(SLOTS) && !defined(M_RELEASE_ONE_SLOT)
       keep(me);
#endif
       P.phase = RELEASING }
  :: d_step { P.phase == RELEASING && P.current ->
       printf("daemon %d releases worker ID %d, limit %d\n", me, P.number, P.next);
       send(P.next, P.next, ANSWERED); end_process(me); tidy() }
  :: d_step { P.phase != IDLE && MAY_END ->
       printf("daemon %d crashes\n", me);
       end_process(me) }
  :: d_step { P.phase == IDLE && R.number != NONE ->
       printf("directory %d is lost, an empty one in its place\n", me);
       new_instance(me); tidy() }
#ifdef SLOTS
#ifdef M_LEAD
#define LEAD_LATER older[me].ceiling
#else
#define LEAD_LATER MAX(R.ceiling, older[me].ceiling)
#endif
  :: d_step { P.phase == IDLE && kept[me] ->
       printf("directory %d: the newer slot of the file is damaged\n", me);
       x = LEAD_LATER; put_back(me); R.ceiling = x; kept[me] = 0; tidy() }
#endif
#ifdef BACKUP
  :: d_step { me == 0 && !kept[me] && R.number != NONE ->
       printf("directory %d: a copy of the file is kept\n", me);
       keep(me); tidy() }
#ifdef M_SAME_LIFE
#define MAY_RESTORE kept[me]
#else
#define MAY_RESTORE (kept[me] && since[me])
#endif
  :: d_step { P.phase == IDLE && MAY_RESTORE ->
       printf("directory %d: the copy of the file is put back\n", me);
       put_back(me); R.restored = since[me]; tidy() }
#endif
#if defined(COPY) || defined(BLIND)
#define other (1 - me)
  :: d_step { me < 2 && !copied && MAY_COPY && R.number != NONE && process[other].phase == IDLE ->
       printf("directory %d is copied over directory %d\n", me, other);
       new_instance(other);
       record[other].number = R.number; record[other].floor = R.floor; record[other].limit = R.limit; record[other].ceiling = R.ceiling;
       record[other].acked = R.acked; record[other].current = R.current; record[other].claim = R.claim; record[other].released = R.released;
       for (j : 0 .. IDS - 1) { entry[j].holders = (HOLDS(me, j) -> entry[j].holders | 1 << other : entry[j].holders) }
       copied = 1; twins = 3; tidy() }
#endif
  od
}

