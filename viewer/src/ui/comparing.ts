// Keeps two snapshots in sync: both show the same part, by step, by time or by event.

import { signal } from '@preact/signals';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Page, PageDevice } from '../core/page.js';
import type { Axis, Frames, Place } from '../protocol.js';
import type { Remote } from '../worker/rpc.js';
import { counted, useAnswer } from './answers.js';
import { type Ground, grounded, namesOf } from './ground.js';
import { change, type State, type Sync } from './state.js';

export const ComparedContext = createContext<readonly [Ground, Ground] | null>(null);

/** The base snapshot, and the one compared with it. */
export function useCompared(): readonly [Ground, Ground] | null {
  return useContext(ComparedContext);
}

/** Each picture's maximum; compared pictures share a scale. */
export const heights = signal<ReadonlyMap<number, number>>(new Map());

/** The height of a picture's scale, given its contents. */
export function commonHeight(high: number, compared: boolean): number {
  return compared ? Math.max(high, ...heights.value.values()) : high;
}

export function sayHeight(snapshot: number, high: number): void {
  if (heights.value.get(snapshot) !== high) {
    heights.value = new Map(heights.value).set(snapshot, high);
  }
}

/** Returns the moments by which two recordings are aligned: the start, the start and end of each
 * step, and the end. */
export function anchors(device: PageDevice): number[] {
  const steps = device.marks.filter(({ kind }) => kind === 'step');
  return [0, ...steps.flatMap(({ moment, end }) => [moment, end ?? moment]), device.events + 1];
}

/** Maps a position on one event axis to the corresponding position on another, by interpolating
 * between anchors. The k-th step corresponds to the other's k-th step. The part after the last
 * step that both have corresponds to the other's remaining part. */
export function mapped(from: readonly number[], to: readonly number[], x: number): number {
  const both = Math.min(from.length, to.length) - 1;
  const a = [...from.slice(0, both), from[from.length - 1]!];
  const b = [...to.slice(0, both), to[to.length - 1]!];
  let k = 1;
  while (k < both && x > a[k]!) k++;
  const [a0, a1, b0, b1] = [a[k - 1]!, a[k]!, b[k - 1]!, b[k]!];
  const part = a1 > a0 ? Math.min(Math.max((x - a0) / (a1 - a0), 0), 1) : 0;
  return b0 + part * (b1 - b0);
}

/** What the snapshots are synchronised by: as chosen, or by time on the time axis and by step on the
 * event axis. */
export function syncOf({ sync, axis }: State, a: PageDevice, b: PageDevice): Sync {
  const found = sync ?? (axis === 'time' ? 'time' : 'step');
  return found === 'time' && (a.last_us === null || b.last_us === null) ? 'step' : found;
}

/** One of the two recordings. */
export interface Side {
  readonly place: Place;
  readonly device: PageDevice;
  readonly axis: Axis;
}

/** Moments and positions of one recording in the other one. */
export interface Matching {
  moment(moment: number): number | Promise<number>;
  position(x: number): number | Promise<number>;
  /** Which of them are known without asking the worker. */
  readonly quick: { readonly moment: boolean; readonly position: boolean };
}

export function matching(engine: Remote, sync: Sync, a: Side, b: Side): Matching {
  const [from, to] = [anchors(a.device), anchors(b.device)];
  const moment = (one: number): number | Promise<number> =>
    sync === 'event'
      ? one
      : sync === 'step'
        ? Math.round(mapped(from, to, one))
        : engine.xOf(a.place, 'time', one).then((x) => engine.momentAt(b.place, 'time', x));
  const axis = a.axis === b.axis ? a.axis : null;
  const quick = { moment: sync !== 'time', position: true };
  if (sync === axis) return { quick, moment, position: (x) => x };
  if (sync === 'step' && axis === 'event') {
    return { quick, moment, position: (x) => mapped(from, to, x) };
  }
  const position = async (x: number) =>
    engine.xOf(b.place, b.axis, await moment(await engine.momentAt(a.place, a.axis, x)));
  return { quick: { ...quick, position: false }, moment, position };
}

/** The parts of the state that are specific to one recording. */
type View = Pick<State, 'at' | 'other' | 'from' | 'to'>;

function viewOf({ at, other, from, to }: View): View {
  return { at, other, from, to };
}

const said = (state: State): string =>
  JSON.stringify([state.snapshot, state.device, state.sync, state.axis, viewOf(state)]);

/** The view that was left by switching to the other snapshot, so that switching back returns to
 * exactly this view, although several moments may correspond to the same one of the other. */
let left: { readonly arrived: string; readonly view: View } | null = null;

/** Shows the other snapshot in the header, the legend and the tabs. */
export function switchTo(from: Ground, to: Ground): void {
  left = { arrived: said(to.state), view: viewOf(from.state) };
  change(to.state);
}

/** The snapshot's device with the same number, if there is one; otherwise the first. */
export function otherPlace(page: Page, { snapshot, device }: Place): Place | null {
  const number = page.snapshots[snapshot]!.devices[device]!.device;
  const devices = page.snapshots[1 - snapshot]?.devices ?? [];
  const same = devices.findIndex((one) => one.device === number);
  return devices.length ? { snapshot: 1 - snapshot, device: Math.max(same, 0) } : null;
}

/** The other of two snapshots, in sync with the one that the header and the tabs show. */
export function useOther(
  page: Page,
  engine: Remote,
  first: Ground | null,
  place: Place | null,
  frames: Frames | null,
): Ground | null {
  const device = place && page.snapshots[place.snapshot]!.devices[place.device]!;
  const axis = device?.last_us === null ? 'event' : (first?.state.axis ?? 'event');
  const side = place && device && { place, device, axis };
  const sync = first && device ? syncOf(first.state, first.device, device) : 'event';
  const there = first && side && matching(engine, sync, first, side);
  const seen = first && {
    ...viewOf(first.state),
    ...(first.state.from === null && first.state.to === null ? {} : first.span),
  };
  const answer = useAnswer(
    JSON.stringify([first?.place, first?.axis, place, sync, seen]),
    async () =>
      there && seen && !(there.quick.moment && there.quick.position) ? matched(there, seen) : null,
  );
  if (!first || !side || !there || !seen || !frames) return null;
  const back = left?.arrived === said(first.state) ? left.view : null;
  const view = back ?? quickly(there, seen, answer.value);
  const { of, group, file } = first.state;
  const name = namesOf(first.snapshot, first.device, of)[group ?? -1];
  const its = page.snapshots[side.place.snapshot]!;
  const same = namesOf(its, side.device, of).indexOf(name ?? '');
  const path = file === null ? -1 : its.texts.indexOf(first.snapshot.texts[file] ?? '');
  const state: State = {
    ...first.state,
    ...view,
    ...side.place,
    pin: null,
    group: name !== undefined && same >= 0 ? same : null,
    file: path >= 0 ? path : null,
  };
  const home = () => matching(engine, sync, side, first);
  const move = (at: number) =>
    void counted(Promise.resolve(home().moment(at)).then((at) => change({ at })));
  const ground = grounded(page, engine, state, side.place, frames, (partial) => {
    const { from, to, ...rest } = partial;
    // A click selects here, so the page shows this snapshot. Moving the view moves both.
    const picked = ['at', 'other', 'pin', 'group'].some((one) => one in partial);
    if (picked) change({ ...state, ...partial });
    else if (from === undefined && to === undefined) change(rest);
    else {
      const ends = matched(home(), { at: null, other: null, from: from ?? null, to: to ?? null });
      void counted(ends.then((found) => change({ ...rest, from: found.from, to: found.to })));
    }
  });
  return { ...ground, move };
}

function through<T>(x: number | null, by: (x: number) => T): T | null {
  return x === null ? null : by(x);
}

async function matched(there: Matching, view: View): Promise<View> {
  const [at, other, from, to] = await Promise.all([
    through(view.at, there.moment),
    through(view.other, there.moment),
    through(view.from, there.position),
    through(view.to, there.position),
  ]);
  return { at, other, from, to };
}

/** The same without waiting: what takes a request comes from the last answer. */
function quickly({ moment, position, quick }: Matching, view: View, answer: View | null): View {
  const of = (key: keyof View, by: Matching['moment'], now: boolean) =>
    now ? (through(view[key], by) as number | null) : (answer?.[key] ?? null);
  return {
    at: of('at', moment, quick.moment),
    other: of('other', moment, quick.moment),
    from: of('from', position, quick.position),
    to: of('to', position, quick.position),
  };
}
