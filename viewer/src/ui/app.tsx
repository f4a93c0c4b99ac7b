// The page: a bar, the verdict, curves, the stacked picture, and below it the tabs.

import { useSignal } from '@preact/signals';
import { Component, type ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Page } from '../core/page.js';
import type { Place } from '../protocol.js';
import type { Remote } from '../worker/rpc.js';
import { Allocator } from './allocator.js';
import { useAnswer } from './answers.js';
import { Bar } from './bar.js';
import { Between } from './between.js';
import { commandOf } from './commands.js';
import { anchors, ComparedContext, mapped, useCompared } from './comparing.js';
import { Copying } from './copying.js';
import { Details } from './details.js';
import { Diff } from './diff.js';
import { FileTab } from './file.js';
import { FlameTab } from './flame.js';
import { type Ground, GroundContext, grounded, read, useGround } from './ground.js';
import { Help } from './help.js';
import { Holders } from './holders.js';
import { keysOf, listen, tabsOf } from './keys.js';
import { elided } from './labels.js';
import { AnnotationLanes } from './lanes.js';
import { Legend } from './legend.js';
import { Listing } from './listing.js';
import { momentName } from './moving.js';
import { Overview } from './overview.js';
import { Picture } from './picture.js';
import { Ranks } from './ranks.js';
import { Blocks } from './report.js';
import { change, state, type Tab } from './state.js';
import { count, percent, size } from './units.js';
import { Windows } from './windows.js';

/** A part that fails shows an error in its place; the rest of the page stays. */
class Guard extends Component<{ children: ComponentChildren }, { error: string | null }> {
  override state = { error: null };

  static override getDerivedStateFromError(error: unknown) {
    return { error: error instanceof Error ? error.message : String(error) };
  }

  override render() {
    return this.state.error === null ? (
      this.props.children
    ) : (
      <p class="failed">This part failed: {this.state.error}</p>
    );
  }
}

function TabPanel({ tab }: { tab: Tab }) {
  const ground = useGround();
  const { snapshot } = ground;
  switch (tab) {
    case 'holders':
      return <Holders />;
    case 'flame':
      return <FlameTab />;
    case 'list':
      return <Listing />;
    case 'between':
      return <Between />;
    case 'allocator':
      return <Allocator />;
    case 'file':
      return <FileTab />;
    case 'diff':
      return <Diff />;
    case 'ranks':
      return <Ranks />;
    case 'report':
      return (
        <div class="panel">
          <div class="toolbar">
            <Copying name="report" command={commandOf(ground, 'report')} />
          </div>
          <Blocks blocks={snapshot.report?.blocks ?? []} />
        </div>
      );
  }
}

function Tabs() {
  const ground = useGround();
  const tabs = tabsOf(ground);
  const { tab } = ground.state;
  const shown = tabs.some(([one]) => one === tab) ? tab : 'holders';
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const i = tabs.findIndex(([one]) => one === shown);
    const next = tabs[(i + step + tabs.length) % tabs.length]!;
    change({ tab: next[0] });
    requestAnimationFrame(() =>
      list.current?.querySelector<HTMLElement>('[aria-selected=true]')?.focus(),
    );
  };
  return (
    <section class="below" data-tab={shown}>
      <div class="tabs" role="tablist" ref={list} onKeyDown={move}>
        {tabs.map(([one, name]) => (
          <button
            key={one}
            type="button"
            role="tab"
            id={`tab-${one}`}
            aria-selected={one === shown}
            aria-controls="tab-panel"
            tabIndex={one === shown ? 0 : -1}
            onClick={() => change({ tab: one })}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${shown}`} class="tab-panel">
        <Guard key={shown}>
          <TabPanel tab={shown} />
        </Guard>
      </div>
    </section>
  );
}

/** The numbers at the cursor, and facts about the whole recording. */
function Headline() {
  const ground = useGround();
  const { snapshot, device, state, at, engine, place } = ground;
  const { measure } = state;
  const bytes = useAnswer(JSON.stringify([place, measure, at]), async () => ({
    at,
    measure,
    bytes: await engine.bytesAt(place, measure, at),
  }));
  const peak = device.peaks[measure];
  const now = bytes.value?.measure === measure ? bytes.value.bytes : undefined;
  return (
    <section class="headline" aria-label="At the cursor">
      <p class="verdict">
        <span data-what="verdict">
          {snapshot.report?.verdicts[device.device] ?? `${snapshot.name}, device ${device.device}`}
        </span>
        {snapshot.folder && (
          <span class="dim" data-what="folder" title={snapshot.folder}>
            files in {elided([snapshot.folder], 60)}
          </span>
        )}
        {snapshot.notes.map((note) => (
          <span key={note} class="warning">
            {note}
          </span>
        ))}
        {device.trust[measure].warning && (
          <span class="warning">
            {measure} bytes: {device.trust[measure].text}
          </span>
        )}
      </p>
      <dl class="figures" aria-live="polite">
        <div>
          <dt>
            <button
              type="button"
              class="plain"
              title="Put the cursor on it (m)"
              onClick={() => change({ at: null, from: null, to: null })}
            >
              peak
            </button>
          </dt>
          <dd data-what="peak-bytes" data-bytes={peak.bytes}>
            {size(peak.bytes)}{' '}
            <small>
              {count(peak.bytes)} bytes {measure}, {momentName(ground, peak.moment)}
            </small>
          </dd>
        </div>
        <div>
          <dt>cursor</dt>
          <dd
            data-what="cursor-bytes"
            data-bytes={bytes.stale ? '' : (now ?? '')}
            data-moment={bytes.value?.at ?? ''}
          >
            {now === undefined ? '…' : size(now)}{' '}
            <small>
              {now === undefined ? '' : `${count(now)} bytes`}
              {now !== undefined && peak.bytes > 0 && at !== peak.moment
                ? `, ${percent(now / peak.bytes)} of the peak`
                : ''}
              , {momentName(ground, at)}
            </small>
          </dd>
        </div>
        {measure !== 'reserved' && <Spare />}
      </dl>
    </section>
  );
}

/** The reserved memory at the cursor, and how much of it is unused. */
function Spare() {
  const { engine, place, at } = useGround();
  const answer = useAnswer(JSON.stringify([place, at]), async () => {
    const [reserved, active] = await Promise.all([
      engine.bytesAt(place, 'reserved', at),
      engine.bytesAt(place, 'active', at),
    ]);
    return { reserved, active };
  });
  if (!answer.value) return null;
  const { reserved, active } = answer.value;
  return (
    <div class="spare">
      <dt>reserved</dt>
      <dd data-what="cursor-reserved" data-bytes={reserved}>
        {size(reserved)} <small>{size(Math.max(reserved - active, 0))} not in use</small>
      </dd>
    </div>
  );
}

function Main({ ground }: { ground: Ground }) {
  const help = useSignal(false);
  const pair = useCompared();
  const keys = useMemo(() => keysOf(() => (help.value = true)), []);
  const now = useRef(ground);
  now.current = ground;
  useEffect(() => listen(keys, () => (help.value ? null : now.current)), []);
  return (
    <GroundContext.Provider value={ground}>
      <Bar showHelp={() => (help.value = true)} />
      <Headline />
      <div class={pair ? 'middle compared' : 'middle'}>
        <div class="stage">
          <Guard>
            <Overview />
          </Guard>
          {pair && (
            <GroundContext.Provider value={pair[1]}>
              <Guard>
                <Overview />
              </Guard>
            </GroundContext.Provider>
          )}
          <Windows />
          {pair && <p class="which">{ground.snapshot.name}</p>}
          <Guard>
            <Picture />
          </Guard>
          <Guard>
            <AnnotationLanes />
          </Guard>
          {pair && (
            <GroundContext.Provider value={pair[1]}>
              <p class="which">{pair[1].snapshot.name}</p>
              <Guard>
                <Picture />
              </Guard>
              <Guard>
                <AnnotationLanes />
              </Guard>
            </GroundContext.Provider>
          )}
        </div>
        <aside class="side">
          <Guard>
            <Legend />
            <Details />
          </Guard>
        </aside>
      </div>
      <Tabs />
      {help.value && <Help keys={keys} close={() => (help.value = false)} />}
    </GroundContext.Provider>
  );
}

/** A snapshot in which nothing was recorded. */
function Nothing({ page }: { page: Page }) {
  const snapshot = page.snapshots[Math.min(state.value.snapshot, page.snapshots.length - 1)];
  return (
    <div class="nothing">
      <h1>
        <span class="brand">memreplay</span> {snapshot?.name}
      </h1>
      <p data-what="verdict">
        Nothing was recorded: the snapshot has no device with events or blocks.
      </p>
      {snapshot?.notes.map((note) => (
        <p class="warning" key={note}>
          {note}
        </p>
      ))}
      {snapshot?.report && <Blocks blocks={snapshot.report.blocks} />}
    </div>
  );
}

/** The frames of a device's snapshot, once the snapshot is read. */
function useRead(engine: Remote, place: Place | null) {
  const { measure } = state.value;
  return useAnswer(JSON.stringify([place, measure]), async () =>
    place ? { place, frames: await read(engine, place, measure) } : null,
  );
}

export function App({ page, engine }: { page: Page; engine: Remote }) {
  const { value } = state;
  const last = useRef<Ground | null>(null);
  const snapshot = Math.min(Math.max(value.snapshot, 0), page.snapshots.length - 1);
  const said = page.snapshots[snapshot];
  const device = Math.min(Math.max(value.device, 0), (said?.devices.length ?? 0) - 1);
  const there = said?.devices[device];
  const place = useMemo(() => (there ? { snapshot, device } : null), [snapshot, device]);
  const answer = useRead(engine, place);
  if (place && answer.value?.place === place) {
    last.current = grounded(page, engine, value, place, answer.value.frames, change);
  }
  const pair = useOther(page, engine, last.current);
  if (!there || !place) return <Nothing page={page} />;
  if (answer.error) {
    return (
      <div class="nothing">
        <p class="failed">The page cannot be shown: {answer.error}</p>
      </div>
    );
  }
  return last.current ? (
    <ComparedContext.Provider value={pair && [last.current, pair]}>
      <Main ground={last.current} />
    </ComparedContext.Provider>
  ) : (
    <div class="reading">
      <p class="dim">Reading {said?.name} …</p>
    </div>
  );
}

/** The second of two snapshots, in sync with the first. */
function useOther(page: Page, engine: Remote, first: Ground | null): Ground | null {
  const snapshot = page.kind === 'compare' ? 1 : -1;
  const devices = page.snapshots[snapshot]?.devices ?? [];
  const same = devices.findIndex(({ device }) => device === first?.device.device);
  const device = Math.max(same, 0);
  const there = devices[device] !== undefined && first?.place.snapshot === 0;
  const place = useMemo(() => (there ? { snapshot, device } : null), [there, snapshot, device]);
  const answer = useRead(engine, place);
  const ready = first && place && answer.value?.place === place ? answer.value.frames : null;
  // On the time axis, the other moment is the one after the same interval; on the event axis, the one in the same step.
  const time = first?.axis === 'time' && ready !== null && devices[device]!.last_us !== null;
  const at = useAnswer(JSON.stringify([place, time, first?.place, first?.at]), async () =>
    time && place && first
      ? engine.momentAt(place, 'time', await engine.xOf(first.place, 'time', first.at))
      : null,
  );
  if (!first || !place || !ready) return null;
  const [a, b] = [anchors(first.device), anchors(devices[device]!)];
  const there_ = (x: number) => (time ? x : mapped(a, b, x));
  const back = (x: number) => (time ? x : mapped(b, a, x));
  const { state } = first;
  const through = (x: number | null | undefined, by: (x: number) => number) =>
    x === null || x === undefined ? null : by(x);
  const moment = state.at === null ? null : time ? at.value : mapped(a, b, state.at);
  return grounded(
    page,
    engine,
    {
      ...state,
      axis: time ? 'time' : 'event',
      from: through(first.span.from, there_),
      to: through(first.span.to, there_),
      at: moment,
      other: state.other === null || time ? null : mapped(a, b, state.other),
      pin: null,
      group: null,
    },
    place,
    ready,
    ({ from, to, at: picked, other, tab }) =>
      change({
        ...(from === undefined ? {} : { from: through(from, back) }),
        ...(to === undefined ? {} : { to: through(to, back) }),
        ...(picked == null || time ? {} : { at: Math.round(mapped(b, a, picked)) }),
        ...(other == null || time ? {} : { other: Math.round(mapped(b, a, other)) }),
        ...(tab === undefined ? {} : { tab }),
      }),
  );
}
