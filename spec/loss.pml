/*
 * A ZooKeeper that loses its data, or is restored from a backup: how it is noticed, what
 * is put back, and when worker IDs are handed out again. README.md says what is covered.
 *
 * ZooKeeper: a root (losses, floor, the parent's czxid), the parent of the entries, and
 * an entry for each worker ID. Daemons, each with its record on disk.
 *
 * Each option of a process is one event, and happens as a whole. An event that doesn't
 * come is a frozen process, a network that is cut, or a ZooKeeper that is away: so a
 * daemon may miss everything that the others do.
 *
 * Times are counted from the present, so that a step of time lowers all of them, and 0 is
 * long past: behaviours of any length are covered. Each reading of a clock, a daemon's or
 * ZooKeeper's, gives any value within SK of the present. A holder that runs is taken to
 * issue all that it may, with any of these values: those are the times 1 to LAST.
 *
 *   WIPE     ZooKeeper loses everything
 *   PARTIAL  the parent is gone with all entries, the root stays
 *   DELETE   a hand deletes an entry, and leaves no word of it
 *   RESTORE  a backup is put back; with RECOVER instead, `cluster recover` at once
 *   OPEN     the operator's `cluster open`
 *   RELEASE  --release-on-stop
 * M_ takes a rule out, X_ drops an exclusion.
 */

#ifndef DAEMONS
#define DAEMONS 2
#endif
#ifndef IDS
#define IDS 1     /* worker IDs */
#endif
#ifndef LEASE
#define LEASE 4   /* more than 2 x SK + 1, or no limit is ever raised before it is near */
#endif
#ifndef LOSSES
#define LOSSES 1  /* how often ZooKeeper loses something */
#endif
#define SK 1      /* the threshold: how far a clock may be from the present */

#define PAST    0
#define PRESENT (SK + 1)
#define LAST    (2 * SK + 1)

#define ABSENT   0
#define CLAIMING 1 /* settling: nothing is issued yet, and its limit is its floor until it ends */
#define ACTIVE   2
#define RELEASED 3
#define NOBODY   DAEMONS

typedef Entry {
  byte state;
  byte holder;
  byte limit
}

#define OTHER 0    /* the root names a parent that is not the one that stands there */
#define NONE  1    /* it is being remade */
#define SAME  2

typedef Tree {
  bit root;
  bit parent;
  byte names;      /* what the root's parent_czxid says of the parent */
  byte losses;
  byte floor;
  Entry entry[IDS]
}

typedef Daemon {
  /* The record on disk: what it holds (a state, as in an entry), and the root's losses that it has seen. */
  byte holds;
  byte id;
  byte floor;
  byte limit;
  byte seen;
  bit member;      /* it has belonged to the cluster */
  bit dead;        /* the operator's word: it will never start again */
  /* The process. */
  bit runs;
  bit current;     /* it knows its entry's version */
  bit rooted;      /* the root wasn't written since its claim */
  /* What it will find at its next contact. */
  bit missing;     /* its entry is absent, or older than what was acknowledged */
  bit newer        /* it wrote its entry after the backup */
}

Tree zk;
Tree backup;
bit saved;           /* there is a backup */
bit older;           /* something was written since it was taken */
byte happened;       /* losses so far */
bit unnoticed;       /* nobody who knows better has come yet, and the root doesn't show it */
Daemon d[DAEMONS];
byte issued[IDS * LAST]; /* who issued (worker ID, time): its number + 1 */
bit id_lost;         /* a healthy holder has lost its worker ID */
byte i, begin;       /* 0 between the events */

#define me _pid
#define max(a, b) ((a) > (b) -> (a) : (b))
#define min(a, b) ((a) < (b) -> (a) : (b))
#define E zk.entry[d[me].id]
#define MINE(n) (zk.entry[n].state != ABSENT && zk.entry[n].holder == me)

#if IDS == 1
#define OWNS MINE(0)
#else
#define OWNS (MINE(0) || MINE(1))
#endif

#if DAEMONS == 2
#define ANY(p) (p(0) || p(1))
#else
#define ANY(p) (p(0) || p(1) || p(2))
#endif

/* The same event for each reading of a clock. */
#define EACH_CLOCK(event) :: event(1) :: event(2) :: event(3)

inline issue(f) {
  if
  :: d[f].runs && d[f].holds == ACTIVE ->
    for (i : 1 .. LAST) {
      if
      :: d[f].floor <= i && i < d[f].limit ->
        assert(issued[d[f].id * LAST + i - 1] == 0 || issued[d[f].id * LAST + i - 1] == f + 1);
        issued[d[f].id * LAST + i - 1] = f + 1
      :: else
      fi
    }
    i = 0
  :: else
  fi
}

/* The entry is written: nobody else knows its version any more. */
inline write(n, what, who, bound) {
  zk.entry[n].state = what;
  zk.entry[n].holder = who;
  zk.entry[n].limit = bound;
  older = saved;
  for (i : 0 .. DAEMONS - 1) {
    if :: d[i].id == n -> d[i].current = 0 :: else fi
  }
  i = 0
}

/* Its own entry is written as its record says. */
inline report() {
  write(d[me].id, d[me].holds, me, d[me].limit);
  d[me].current = d[me].runs;
  d[me].newer = saved;
  if :: d[me].holds != CLAIMING -> d[me].seen = zk.losses :: else fi
}

inline wrote_root() {
  for (i : 0 .. DAEMONS - 1) { d[i].rooted = 0 }
  i = 0
}

#ifdef M_FLOOR_LEASE
#define FLOOR_LEASE 0
#else
#define FLOOR_LEASE LEASE
#endif
#ifdef M_FLOOR_MARGIN
#define FLOOR_MARGIN 0
#else
#define FLOOR_MARGIN (2 * SK)
#endif
/* A loss is noted in the root: nobody gets a worker ID that he did not hold before all lost pieces have ended. */
inline note_loss(number, now) {
  zk.losses = number;
  zk.floor = max(zk.floor, now + FLOOR_LEASE + FLOOR_MARGIN);
  unnoticed = 0;
  wrote_root()
}

/* The daemon holds nothing any more. */
inline forget(f) {
  d[f].holds = ABSENT; d[f].id = 0; d[f].floor = PAST; d[f].limit = PAST;
  d[f].runs = 0; d[f].current = 0; d[f].rooted = 0; d[f].missing = 0; d[f].newer = 0
}

inline displaced() {
  /* Nobody whose piece reaches well beyond its now loses its worker ID. */
  id_lost = (d[me].runs && d[me].limit > PRESENT + 3 * SK);
  assert(!id_lost);
  forget(me)
}

/* A claim that is given up stands as released, from its floor on. */
inline give_up() {
  if
  :: MINE(d[me].id) ->
#ifdef M_CLAIM_DELETED
    write(d[me].id, ABSENT, 0, PAST)
#else
    write(d[me].id, RELEASED, NOBODY, d[me].floor)
#endif
  :: else
  fi;
  forget(me)
}

/* The end of settling: the limit is raised. */
inline settle(now) {
  d[me].holds = ACTIVE; d[me].rooted = 0;
  d[me].limit = max(d[me].limit, now + LEASE);
  report(); issue(me)
}

/* The daemon claims worker ID n, its piece to begin at `begin`. */
inline claim(n) {
  forget(me);
  d[me].holds = CLAIMING; d[me].id = n; d[me].floor = begin; d[me].limit = begin;
  d[me].member = 1; d[me].runs = 1; d[me].rooted = 1;
  begin = 0;
#ifdef M_SETTLE
  settle(LAST)
#else
  report()
#endif
}

/* Below the root's floor nobody gets a worker ID that he did not hold. */
#ifdef M_FLOOR
#define ROOT_FLOOR PAST
#else
#define ROOT_FLOOR zk.floor
#endif
/* And a piece that does not reach beyond now + 2 x threshold begins again: after its end, at or above this floor, and settling. */
#ifdef M_ENDED
#define ENDED_FLOOR PAST
#else
#define ENDED_FLOOR zk.floor
#endif
#define REACHES(limit, now) ((now) + 2 * SK < (limit))

/* Where a piece may begin on what stands in the entry, by the clock that shows most. */
#define TAKEABLE(n) (zk.entry[n].state != ACTIVE || zk.entry[n].limit <= LAST)
#define ENTRY_LIMIT(n) (zk.entry[n].state == ABSENT -> PAST : zk.entry[n].limit)
#define RECORD_LIMIT(n) (d[me].holds != ABSENT && d[me].id == n -> d[me].limit : PAST)

/* The root and the parent are as they should be; what a daemon does then. */
#ifdef M_CZXID
#define WHOLE (zk.root && zk.parent && zk.names != NONE)
#else
#define WHOLE (zk.root && zk.parent && zk.names == SAME)
#endif
#define NORMAL (WHOLE && !d[me].missing && !d[me].dead)
#define SETTLED (d[me].holds == ACTIVE)

/* A daemon that has not belonged to the cluster: they are alike, so they join in order. */
#define NEXT (me == 0 || d[me].member || d[me - 1].member)


/* The loss, as a daemon finds it: 1. the root. */

inline remake_root(now) {
  d_step { !zk.root && d[me].member && !d[me].dead ->
    zk.root = 1; zk.parent = 0; zk.names = NONE;
    note_loss(d[me].seen + 1, now);
    printf("%c makes the root again, losses %d, floor %d\n", 65 + me, zk.losses, zk.floor) }
}

#ifdef M_CZXID
#define PARENT_TROUBLE (!zk.parent)
#else
#define PARENT_TROUBLE true
#endif

inline note_parent(now) {
  d_step { zk.root && zk.names == OTHER && PARENT_TROUBLE && !d[me].dead ->
    zk.names = NONE;
    note_loss(zk.losses + 1, now);
    printf("%c misses the parent: losses %d, floor %d\n", 65 + me, zk.losses, zk.floor) }
}
inline note_entry(now) {
  d_step { WHOLE && d[me].missing && !d[me].dead && zk.losses <= d[me].seen ->
    note_loss(zk.losses + 1, now);
    printf("%c misses its entry: losses %d, floor %d\n", 65 + me, zk.losses, zk.floor) }
}
#define NOTED (WHOLE && d[me].missing && !d[me].dead && zk.losses > d[me].seen)

/* 3. Its own entry: by the clock that shows least it may be put back, by the one that shows most it may not. */
#ifdef M_MARGIN
#define MAY_PUT_BACK (d[me].limit > 1)
#else
#define MAY_PUT_BACK REACHES(d[me].limit, 1)
#endif
#ifdef M_CLAIM_STANDS
#define LESS (E.state != CLAIMING && E.limit < d[me].limit)
#elif defined(M_GREATER)
#define LESS (E.state == CLAIMING)
#else
#define LESS (E.state == CLAIMING || E.limit < d[me].limit)
#endif

inline put_back() {
  d_step { NOTED && SETTLED && MAY_PUT_BACK ->
    if
    :: E.state == ABSENT || E.holder == me || LESS ->
      report();
      d[me].missing = 0;
      printf("%c puts its entry back, limit %d\n", 65 + me, d[me].limit)
    :: else ->
      printf("%c: its worker ID is another's, with a greater limit\n", 65 + me);
      displaced()
    fi }
}

inline put_nothing_back() {
  d_step { NOTED && (!SETTLED || !REACHES(d[me].limit, LAST)) ->
    printf("%c puts nothing back\n", 65 + me);
    d[me].missing = 0;
    if
    :: d[me].holds == CLAIMING -> give_up()
    :: d[me].holds != CLAIMING && !d[me].runs && !MINE(d[me].id) && d[me].limit <= LAST -> forget(me)
    :: else
    fi }
}

/* Ordinary life. */

#ifdef M_NEARLY
#define MAY_RAISE(now) (REACHES(d[me].limit, now) || (now) < d[me].limit && ENDED_FLOOR <= LAST)
#else
#define MAY_RAISE(now) REACHES(d[me].limit, now)
#endif
/* At a start, and in a report of a running daemon. */
inline resume(now) {
  d_step { NORMAL && SETTLED && !d[me].runs && MINE(d[me].id) && MAY_RAISE(now) ->
    d[me].runs = 1; d[me].limit = max(d[me].limit, now + LEASE);
    report(); issue(me);
    printf("%c resumes worker ID %d, limit %d\n", 65 + me, d[me].id, d[me].limit) }
}

inline raise(now) {
  d_step { NORMAL && SETTLED && d[me].current && now + LEASE > d[me].limit && MAY_RAISE(now) ->
    d[me].limit = now + LEASE;
    report(); issue(me);
    printf("%c reports, limit %d\n", 65 + me, d[me].limit) }
}

inline begin_again(n) {
  d_step { NORMAL && MINE(n) && (!d[me].runs || SETTLED && d[me].current && d[me].id == n) &&
    ENTRY_LIMIT(n) <= LAST && RECORD_LIMIT(n) <= LAST && ENDED_FLOOR <= LAST ->
    begin = ENTRY_LIMIT(n); begin = max(begin, RECORD_LIMIT(n)); begin = max(begin, ENDED_FLOOR);
    printf("%c begins worker ID %d again\n", 65 + me, n);
#ifdef M_AGAIN_AT_ONCE
    claim(n);
    settle(LAST)
#else
    claim(n)
#endif
    }
}

inline take(n) {
  d_step { NORMAL && !d[me].runs && !OWNS && !(SETTLED && d[me].limit > LAST) && NEXT && TAKEABLE(n) &&
    ENTRY_LIMIT(n) <= LAST && ROOT_FLOOR <= LAST ->
    begin = ENTRY_LIMIT(n); begin = max(begin, ROOT_FLOOR);
    claim(n);
    printf("%c claims worker ID %d from %d on\n", 65 + me, n, d[me].floor) }
}

/* A newcomer settles where something is lost, and nobody who knows better has come yet. */
#ifdef X_UNNOTICED
#define EXCLUDED false
#else
#define EXCLUDED unnoticed
#endif

#if defined(M_SETTLE_ROOT)
#define UNCHANGED d[me].current
#elif defined(M_SETTLE_ENTRY)
#define UNCHANGED d[me].rooted
#else
#define UNCHANGED (d[me].current && d[me].rooted)
#endif

inline end_settling(now) {
  d_step { NORMAL && d[me].runs && d[me].holds == CLAIMING && d[me].floor <= now && UNCHANGED && !EXCLUDED ->
    settle(now);
    printf("%c has settled, limit %d\n", 65 + me, d[me].limit) }
}
active [DAEMONS] proctype daemon() {
end:
  do
  EACH_CLOCK(remake_root)
  EACH_CLOCK(note_parent)
  EACH_CLOCK(note_entry)
  /* 2. The parent. */
  :: d_step { zk.root && !zk.parent && zk.names == NONE && !d[me].dead ->
      zk.parent = 1;
      printf("%c makes the parent\n", 65 + me) }
  :: d_step { zk.root && zk.parent && zk.names == NONE && !d[me].dead ->
      zk.names = SAME;
      wrote_root();
      printf("%c names the parent in the root\n", 65 + me) }
  :: put_back()
  :: put_nothing_back()

  EACH_CLOCK(resume)
  EACH_CLOCK(raise)
  :: begin_again(0)
  :: take(0)
#if IDS > 1
  :: begin_again(1)
  :: take(1)
#endif
  EACH_CLOCK(end_settling)
  :: d_step { NORMAL && d[me].runs && d[me].holds == CLAIMING ->
      printf("%c gives its claim up\n", 65 + me);
      give_up() }

  /* Its own file, without ZooKeeper. */
  :: d_step { !d[me].runs && SETTLED && d[me].limit > 1 ->
      d[me].runs = 1; issue(me);
      printf("%c starts from its file, worker ID %d [%d,%d)\n", 65 + me, d[me].id, d[me].floor, d[me].limit) }
  :: d_step { d[me].runs ->
      d[me].runs = 0; d[me].current = 0; d[me].rooted = 0;
      printf("%c stops\n", 65 + me) }
#ifdef RELEASE
  :: d_step { NORMAL && d[me].runs && SETTLED && d[me].current ->
      d[me].runs = 0; d[me].holds = RELEASED;
      d[me].limit = min(d[me].limit, max(LAST + 1, d[me].floor));
      report();
      printf("%c stops and releases worker ID %d, limit %d\n", 65 + me, d[me].id, d[me].limit) }
#endif

  /* It reads its entry, which may be as it wrote it, or another's, or absent. */
  :: d_step { NORMAL && d[me].runs && SETTLED && !d[me].current && MINE(d[me].id) && E.state == ACTIVE && E.limit == d[me].limit ->
      d[me].current = 1;
      printf("%c reads its entry again\n", 65 + me) }
  :: d_step { NORMAL && d[me].runs && SETTLED && E.state != ABSENT && E.holder != me ->
      printf("%c: its worker ID is another's\n", 65 + me);
      displaced() }
  :: d_step { NORMAL && SETTLED && E.state == ABSENT && d[me].limit <= LAST ->
      printf("%c: its piece has ended, and the entry is gone\n", 65 + me);
      forget(me) }
  :: d_step { NORMAL && !d[me].runs && d[me].holds != ABSENT && !OWNS && d[me].limit == PAST ->
      forget(me) }
  od
}

/* Time, ZooKeeper's faults, the operator. */

#define LOWER_LOSSES (d[i].seen > zk.losses)
#define NOT_BACK(f) (d[f].holds == ACTIVE && d[f].limit > PAST && (zk.entry[d[f].id].state != ACTIVE || \
    zk.entry[d[f].id].holder != f || zk.entry[d[f].id].limit < d[f].limit))
#define AWAY(f) (NOT_BACK(f) && d[f].runs)
#ifdef X_OPEN
#define NOBODY_AWAY true
#else
#define NOBODY_AWAY !ANY(AWAY)
#endif
#ifdef M_OPEN_MARGIN
#define OPEN_MARGIN 1
#else
#define OPEN_MARGIN (2 * SK + 1)
#endif

inline pass(t) {
  if :: t > PAST -> t = t - 1 :: else fi
}

inline absent(n) {
  write(n, ABSENT, 0, PAST)
}

/* Every daemon that holds something has lost its entry. */
inline all_gone() {
  for (i : 0 .. DAEMONS - 1) {
    d[i].current = 0;
    d[i].missing = (d[i].holds != ABSENT && !d[i].dead)
  }
  i = 0;
  happened++
}

inline copy_entry(to, from) {
  to.state = from.state; to.holder = from.holder; to.limit = from.limit
}

inline copy_tree(to, from) {
  to.root = from.root; to.parent = from.parent; to.names = from.names; to.losses = from.losses; to.floor = from.floor;
  copy_entry(to.entry[0], from.entry[0])
#if IDS > 1
  ; copy_entry(to.entry[1], from.entry[1])
#endif
}

/* By hand, with no word of it anywhere: the entry of one that holds it. */
inline delete(n) {
  d_step { happened < LOSSES && zk.entry[n].state == ACTIVE ->
    i = zk.entry[n].holder;
    d[i].missing = (d[i].id == n && d[i].holds != ABSENT);
    i = 0;
    absent(n);
    happened++; unnoticed = 1;
    printf("a hand deletes the entry of worker ID %d\n", n) }
}

inline restore() {
  copy_tree(zk, backup);
  wrote_root();
  for (i : 0 .. DAEMONS - 1) {
    d[i].current = 0;
    d[i].missing = (!d[i].dead && (d[i].newer || LOWER_LOSSES));
    d[i].newer = 0
  }
  i = 0;
  backup.root = 0; backup.parent = 0; backup.names = 0; backup.losses = 0; backup.floor = PAST;
  for (i : 0 .. IDS - 1) { backup.entry[i].state = ABSENT; backup.entry[i].holder = 0; backup.entry[i].limit = PAST }
  i = 0;
  saved = 0; older = 0; happened++
}

/* The operator says at once that ZooKeeper was restored. */
inline recover(now) {
  d_step { saved ->
    restore();
    note_loss(zk.losses + 1, now);
    printf("ZooKeeper is restored from the backup, cluster recover: floor %d\n", zk.floor) }
}

/* The operator's word that everybody is back, or dead for good. */
inline open(now) {
  d_step { WHOLE && happened > 0 && now < zk.floor && NOBODY_AWAY ->
    for (i : 0 .. DAEMONS - 1) {
      if
      :: NOT_BACK(i) && !d[i].runs -> forget(i); d[i].dead = 1
      :: else
      fi
    }
    i = 0;
    zk.floor = now + OPEN_MARGIN;
    wrote_root();
    printf("cluster open: floor %d\n", zk.floor) }
}

active proctype world() {
  atomic { zk.root = 1; zk.parent = 1; zk.names = SAME }
end:
  do
  :: d_step {
      pass(zk.floor);
      for (i : 0 .. IDS - 1) { pass(zk.entry[i].limit); pass(backup.entry[i].limit) }
      pass(backup.floor);
      for (i : 0 .. DAEMONS - 1) { pass(d[i].floor); pass(d[i].limit) }
      for (i : 0 .. IDS * LAST - 2) { issued[i] = issued[i + 1] }
      for (i : 1 .. IDS) { issued[i * LAST - 1] = 0 }
      i = 0;
      issue(0); issue(1);
#if DAEMONS > 2
      issue(2);
#endif
      printf("time passes\n") }
#ifdef WIPE
  :: d_step { happened < LOSSES ->
      zk.root = 0; zk.parent = 0; zk.names = OTHER; zk.losses = 0; zk.floor = PAST;
      absent(0);
#if IDS > 1
      absent(1);
#endif
      wrote_root(); all_gone();
      printf("ZooKeeper loses everything\n") }
#endif
#ifdef PARTIAL
  :: d_step { happened < LOSSES && WHOLE ->
      zk.parent = 0; zk.names = OTHER;
      absent(0);
#if IDS > 1
      absent(1);
#endif
      all_gone();
      printf("ZooKeeper loses the parent with all entries\n") }
  :: d_step { zk.root && !zk.parent ->
      zk.parent = 1;
      printf("somebody else makes the parent\n") }
#endif
#ifdef DELETE
  :: delete(0)
#if IDS > 1
  :: delete(1)
#endif
#endif
#if defined(RESTORE) || defined(RECOVER)
  :: d_step { happened < LOSSES && !saved ->
      saved = 1; older = 0;
      copy_tree(backup, zk);
      for (i : 0 .. DAEMONS - 1) { d[i].newer = 0 }
      i = 0;
      printf("a backup is taken\n") }
#endif
#ifdef RESTORE
  :: d_step { saved ->
      unnoticed = older;
      restore();
      printf("ZooKeeper is restored from the backup\n") }
#endif
#ifdef RECOVER
  EACH_CLOCK(recover)
#endif
#ifdef OPEN
  EACH_CLOCK(open)
#endif
  od
}
