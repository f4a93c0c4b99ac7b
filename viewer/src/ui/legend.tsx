// The legend: what has which colour, and its bytes at the cursor, in the order of the stack.

import { useMemo } from 'preact/hooks';
import { ALLOCATION, COLOURS } from '../core/distinct.js';
import type { Way } from '../core/page.js';
import { kept, shared } from '../core/shared.js';
import type { Allocation, Place } from '../protocol.js';
import type { Remote } from '../worker/rpc.js';
import { useAnswer } from './answers.js';
import { useCompared } from './comparing.js';
import { choose, type Ground, groupLines, groupsOf, namesOf, useGround, waysOf } from './ground.js';
import { distinct, elided, groupWords } from './labels.js';
import { OutsideLegend } from './outside.js';
import { css, DARK, GROUPS, LIGHT, type Shades } from './palette.js';
import { type PointedAt, pointed } from './pointing.js';
import { toggleCarried } from './scale.js';
import { SegmentLegend, showsSegments } from './segments.js';
import { LETTERS } from './snapshots.js';
import { change } from './state.js';
import { dark } from './theme.js';
import { count, percent, size } from './units.js';

export interface Colour {
  readonly group: number;
  readonly colour: number;
}

export interface Coloured {
  readonly way: Way;
  readonly own: readonly Colour[];
}

export function useShades(): Shades {
  return dark.value ? DARK : LIGHT;
}

/** Characters of a name. */
const MOST = 72;
/** Number of listed groups. */
const ROWS = 14;

/** Allocations without a meaningful group are drawn in the same muted colours as the remaining
 * groups. */
const NOBODYS = /^\(|^unknown$|^before the recording/;

/** Answers that many parts of the page ask for and that never change. */
const SUMS = new Map<string, Promise<Float64Array>>();

function sumsOf(engine: Remote, place: Place, way: Way): Promise<Float64Array> {
  const key = JSON.stringify([place, way]);
  const found = SUMS.get(key) ?? engine.prominence(place, way);
  SUMS.set(key, found);
  found.catch(() => SUMS.delete(key));
  return found;
}

/** If one group fills at least this part of each picture, its allocations get separate colours. */
const NEARLY_ALL = 0.9;
const BY_ALLOCATION: Coloured = {
  way: ALLOCATION,
  own: GROUPS.slice(0, COLOURS).map((colour, group) => ({ group, colour })),
};

function nearlyAll(sums: Float64Array): boolean {
  let [most, total] = [0, 0];
  for (const one of sums) {
    most = Math.max(most, one);
    total += one;
  }
  return most >= NEARLY_ALL * total;
}

/** The colours of names on the ranks that were shown so far. */
const remembered = new Map<Way, Map<string, number>>();

function ofRanks(way: Way): Map<string, number> {
  const found = remembered.get(way) ?? new Map<string, number>();
  remembered.set(way, found);
  return found;
}

/** Returns the groups that have their own colour: those that fill most of the whole recording's
 * picture. They keep it at every zoom and for every measure, and in both of two pictures. Unless a
 * key was chosen, it's by category, or by allocation if that would be a single colour. */
export function useColours(ground: Ground): Coloured {
  const { engine, page, place, state, device } = ground;
  const ways = waysOf(device);
  const usual = ways.includes('category') ? 'category' : (ways[0] ?? 'stack');
  const way = ways.includes(state.colour) ? state.colour : usual;
  const sides = (useCompared() ?? [ground]).filter((one) => groupsOf(one.device, way));
  const places = sides.map((one) => one.place);
  const key = JSON.stringify([places, way]);
  const answer = useAnswer(key, async () => ({
    key,
    sums: await Promise.all(places.map((one) => sumsOf(engine, one, way))),
  }));
  const sums = answer.value?.key === key ? answer.value.sums : null;
  const own = useMemo(() => {
    if (!sums) return [];
    const found = shared(
      sides.map(({ snapshot, device }, i) => {
        const names = namesOf(snapshot, device, way);
        const named = (group: number) => names[group] || `#${group}`;
        const name = (group: number) => (NOBODYS.test(named(group)) ? null : named(group));
        return { sums: sums[i]!, moments: device.events + 1, name };
      }),
      GROUPS.length,
    );
    const mine = places.findIndex((one) => one.snapshot === place.snapshot);
    const own = found[mine] ?? [];
    if (page.kind !== 'ranks') return own.map(([group, i]) => ({ group, colour: GROUPS[i]! }));
    const names = namesOf(ground.snapshot, device, way);
    const colours = kept(
      ofRanks(way),
      own.map(([group]) => names[group] || `#${group}`),
      GROUPS.length,
    );
    return own.flatMap(([group], i) => {
      const colour = GROUPS[colours[i]!];
      return colour === undefined ? [] : [{ group, colour }];
    });
  }, [sums, place.snapshot]);
  const single = useMemo(
    () => sums?.some((one) => one.some(Boolean)) && sums.every(nearlyAll),
    [sums],
  );
  const all = state.colour === ALLOCATION && ways.length > 0;
  return all || (single && state.colour === 'auto') ? BY_ALLOCATION : { way, own };
}

export function colourOf(colours: Coloured, shades: Shades, group: number): number {
  const own = colours.own.find((one) => one.group === group);
  return own?.colour ?? shades.others[group % shades.others.length]!;
}

/** Short names that tell these groups apart. */
function briefsOf(ground: Ground, way: Way, groups: readonly number[]): Map<number, string> {
  const words = groups.map((group) => groupWords(ground, way, group, true));
  const names = elided(distinct(words), MOST);
  return new Map(groups.map((group, i) => [group, names[i]!]));
}

/** Shows or hides what was carried over, if anything was. */
function Carried({ ground }: { ground: Ground }) {
  const { engine, place, counted: measure, state } = ground;
  const answer = useAnswer(JSON.stringify([place, measure]), () =>
    engine.bytesAt(place, measure, 0),
  );
  if (!answer.value) return null;
  const hidden = state.carried === 'hidden';
  return (
    <button
      type="button"
      class="small"
      data-what="carried"
      aria-pressed={!hidden}
      title={`${size(answer.value)} were live before the first event: ${hidden ? 'hidden' : 'shown'} (c)`}
      onClick={() => toggleCarried(ground)}
    >
      carried over
    </button>
  );
}

/** A row of the legend: pointing at it marks its groups or its allocation in the picture. */
function Row(props: {
  colour: string;
  name: string;
  title: string;
  bytes?: number | undefined;
  total?: number | undefined;
  chosen: boolean;
  marks: Omit<PointedAt, 'from'>;
  choose: () => void;
}) {
  const { colour, name, title, bytes, total, chosen, marks, choose } = props;
  const mark = () => {
    pointed.value = { from: 'legend', ...marks };
  };
  const clear = () => {
    pointed.value = null;
  };
  const { id, groups = {}, snapshot } = marks;
  const under = pointed.value?.from === 'picture' ? pointed.value : null;
  const same =
    under?.snapshot === snapshot &&
    (id === undefined
      ? Object.entries(groups).every(([way, group]) => under.groups?.[way] === group)
      : under.id === id);
  return (
    <button
      type="button"
      class={`${chosen ? 'chosen' : ''} ${same ? 'pointed' : ''}`}
      title={title}
      aria-pressed={chosen}
      onClick={choose}
      onPointerEnter={mark}
      onPointerLeave={clear}
      onFocus={mark}
      onBlur={clear}
    >
      <Cells colour={colour} name={name} bytes={bytes} total={total} />
    </button>
  );
}

function Cells(props: {
  colour: string;
  name: string;
  bytes?: number | undefined;
  total?: number | undefined;
}) {
  const { colour, name, bytes, total } = props;
  return (
    <>
      <i class="swatch" style={{ background: colour }} />
      <span class="name">{name}</span>
      {bytes !== undefined && (
        <>
          <span class="number" data-what="legend-bytes" data-bytes={bytes}>
            {size(bytes)}
          </span>
          <span class="number share">{total ? percent(bytes / total) : ''}</span>
        </>
      )}
    </>
  );
}

export function Legend() {
  const shades = useShades();
  return (
    <>
      {showsSegments(useGround()) ? <SegmentLegend shades={shades} /> : <Colours />}
      <OutsideLegend />
    </>
  );
}

function Colours() {
  const ground = useGround();
  const { engine, place, counted: measure, device, state } = ground;
  const colours = useColours(ground);
  const carried = useAnswer(
    JSON.stringify([place, measure, state.carried]),
    async () => state.carried === 'hidden' && (await engine.bytesAt(place, measure, 0)),
  );
  return (
    <section class="legend" aria-label="Colours">
      {waysOf(device).length > 0 && (
        <label class="field">
          colour by{' '}
          <select
            value={colours.way}
            onChange={(event) => change({ colour: event.currentTarget.value as Way })}
          >
            {waysOf(device).map((one) => (
              <option key={one}>{one}</option>
            ))}
            <option>{ALLOCATION}</option>
          </select>
        </label>
      )}{' '}
      <Carried ground={ground} />
      {carried.value ? (
        <p class="dim" data-what="without">
          Allocated since the recording began, without the {size(carried.value)} carried over.
        </p>
      ) : null}
      {colours.way === ALLOCATION ? (
        <Allocations ground={ground} />
      ) : (
        <Groups ground={ground} colours={colours} />
      )}
    </section>
  );
}

function Groups({ ground, colours }: { ground: Ground; colours: Coloured }) {
  const { engine, place, at, counted: measure, state } = ground;
  const shades = useShades();
  const { way } = colours;
  const other = useCompared()?.[1 - place.snapshot];
  const filter = state.carried === 'hidden' ? { recorded: true } : null;
  const answer = useAnswer(JSON.stringify([place, measure, way, at, filter]), async () => ({
    way,
    ...(await engine.holders({ place, measure, moment: at, way, filter })),
  }));
  const now = answer.value?.way === way ? answer.value : null;
  const groups = now?.groups.filter(({ bytes }) => bytes > 0) ?? [];
  const there = new Set(groups.map(({ group }) => group));
  // The groups with a colour, and the largest of the others, from the top of the stack down.
  const own = new Set(colours.own.map(({ group }) => group));
  const quiet = groups.filter(({ group }) => !own.has(group));
  const rest = quiet.slice(Math.max(ROWS - own.size, 0));
  const listed = groups
    .filter((one) => own.has(one.group) || !rest.includes(one))
    .sort((a, b) => b.level - a.level);
  const absent = now ? colours.own.filter(({ group }) => !there.has(group)) : colours.own;
  const briefs = briefsOf(
    ground,
    way,
    [...listed, ...absent].map(({ group }) => group),
  );
  const row = ({ group, bytes }: { group: number; bytes?: number }) => {
    const colour = css(colourOf(colours, shades, group));
    return (
      <li key={group} data-group={group} data-colour={colour}>
        <Row
          colour={colour}
          name={briefs.get(group) ?? ''}
          title={groupLines(ground, way, group).join('\n')}
          bytes={bytes}
          total={now?.bytes}
          chosen={state.of === way && state.group === group}
          marks={{ snapshot: place.snapshot, groups: { [way]: group } }}
          choose={() => choose(ground, way, group)}
        />
      </li>
    );
  };
  return (
    <>
      <ul>
        {listed.map(row)}
        {rest.length > 0 && (
          <li data-group="rest">
            <span class="rest">
              <Cells
                colour={css(shades.others[0]!)}
                name={
                  rest.length === 1
                    ? [...briefsOf(ground, way, [rest[0]!.group]).values()][0]!
                    : `${rest.length} other groups`
                }
                bytes={rest.reduce((sum, { bytes }) => sum + bytes, 0)}
                total={now?.bytes}
              />
            </span>
          </li>
        )}
      </ul>
      {(absent.length > 0 || other) && (
        <ul class="absent" aria-label="Not live at the cursor">
          {absent.map(({ group }) => row({ group }))}
          {other && <Others other={other} colours={colours} />}
        </ul>
      )}
    </>
  );
}

/** The largest allocations at the cursor, if each has its own colour. */
function Allocations({ ground }: { ground: Ground }) {
  const { engine, place, at: moment, counted: measure, state } = ground;
  const filter = state.carried === 'hidden' ? { recorded: true } : null;
  const answer = useAnswer(JSON.stringify([place, measure, moment, filter]), async () => {
    const sorted = { sort: 'bytes', descending: true, offset: 0, limit: ROWS } as const;
    const found = await engine.live({ place, measure, moment, filter, ...sorted });
    const ids = found.rows.map(({ id }) => id);
    return { ...found, colours: await engine.groups(place, measure, ALLOCATION, ids) };
  });
  if (!answer.value) return null;
  const { rows, colours, bytes, total } = answer.value;
  const sizeOf = ({ requested, block }: Allocation) =>
    measure === 'requested' || measure === 'held' ? requested : block;
  const briefs = briefsOf(
    ground,
    'stack',
    rows.map(({ groups }) => groups.stack ?? -1),
  );
  const colourOf = new Map(rows.map(({ id }, i) => [id, css(GROUPS[colours[i]!] ?? 0)]));
  return (
    <>
      <p class="dim" data-what="by-allocation">
        One colour per allocation: neighbours differ.{' '}
        {total > rows.length && `The largest of ${count(total)}:`}
      </p>
      <ul>
        {[...rows]
          .sort((a, b) => b.id - a.id)
          .map((one) => (
            <li key={one.id} data-id={one.id}>
              <Row
                colour={colourOf.get(one.id)!}
                name={briefs.get(one.groups.stack ?? -1) ?? ''}
                title={groupLines(ground, 'stack', one.groups.stack ?? -1).join('\n')}
                bytes={sizeOf(one)}
                total={bytes}
                chosen={state.pin === one.id}
                marks={{ snapshot: place.snapshot, id: one.id }}
                choose={() => change({ pin: one.id, group: null })}
              />
            </li>
          ))}
      </ul>
    </>
  );
}

/** The coloured groups that only the other picture has. */
function Others({ other, colours }: { other: Ground; colours: Coloured }) {
  const own = new Set(colours.own.map(({ colour }) => colour));
  return useColours(other)
    .own.filter(({ colour }) => !own.has(colour))
    .map(({ group, colour }) => {
      return (
        <li key={`only ${group}`}>
          <span class="rest" title={groupLines(other, colours.way, group).join('\n')}>
            <i class="swatch" style={{ background: css(colour) }} />
            <span class="name">{groupWords(other, colours.way, group, true)[0]}</span>
            <span class="dim">only in {LETTERS[other.place.snapshot]}</span>
          </span>
        </li>
      );
    });
}
