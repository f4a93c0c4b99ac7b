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
import { ComparedContext, otherPlace, useCompared, useOther } from './comparing.js';
import { Copying } from './copying.js';
import { Details } from './details.js';
import { Diff } from './diff.js';
import { Events } from './events.js';
import { FailureLine } from './failures.js';
import { FileTab } from './file.js';
import { FlameTab } from './flame.js';
import { type Ground, GroundContext, grounded, read, useGround } from './ground.js';
import { Help } from './help.js';
import { Holders } from './holders.js';
import { keysOf, tabsOf } from './keys.js';
import { elided } from './labels.js';
import { AnnotationLanes } from './lanes.js';
import { Legend } from './legend.js';
import { listen } from './listening.js';
import { Listing } from './listing.js';
import { momentName } from './moving.js';
import { Overview } from './overview.js';
import { FullButton, Separator, sizesOf, useFull } from './panes.js';
import { Picture } from './picture.js';
import { Ranks } from './ranks.js';
import { Blocks } from './report.js';
import { BothPeaks, showNext, Which } from './snapshots.js';
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
    case 'events':
      return <Events />;
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
      <FullButton
        name="table"
        hint="F"
        on={ground.state.full === 'table'}
        act={() => change({ full: ground.state.full === 'table' ? null : 'table' })}
      />
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
  const pair = useCompared();
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
        <Doubts />
      </p>
      <FailureLine />
      <dl class="figures" aria-live="polite">
        {pair ? (
          <BothPeaks pair={pair} />
        ) : (
          <div>
            <dt>
              <button
                type="button"
                class="plain"
                title="Put the cursor on it (m)"
                onClick={() => change({ at: peak.moment, from: null, to: null })}
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
        )}
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
        {device.card && (
          <div>
            <dt data-what="card">{device.card.text}</dt>
          </div>
        )}
      </dl>
    </section>
  );
}

/** Why the numbers aren't exact: those of the measure, and otherwise those of the device. */
function Doubts() {
  const { snapshot, device, state } = useGround();
  const { measure } = state;
  const of = device.trust[measure];
  const all = snapshot.report?.reasons[device.device];
  const own = of.warning && (measure !== 'requested' || !all);
  if (!own && !all) return null;
  return (
    <span class="warning" data-what="doubts">
      {own ? `${measure} bytes: ${of.text}` : all}
    </span>
  );
}

/** The reserved memory at the cursor, and how much of it is unused. */
function Spare() {
  const { engine, place, at, device } = useGround();
  const answer = useAnswer(JSON.stringify([place, at]), async () => {
    const [reserved, active] = await Promise.all([
      engine.bytesAt(place, 'reserved', at),
      engine.bytesAt(place, 'active', at),
    ]);
    return { reserved, active };
  });
  if (!answer.value) return null;
  const { reserved, active } = answer.value;
  const doubt = device.trust.reserved;
  return (
    <div class="spare">
      <dt>reserved</dt>
      <dd data-what="cursor-reserved" data-bytes={reserved}>
        {size(reserved)}{' '}
        {doubt.warning && (
          <small class="warning" title={doubt.text}>
            inexact
          </small>
        )}{' '}
        <small>{size(Math.max(reserved - active, 0))} not in use</small>
      </dd>
    </div>
  );
}

function Main({ ground }: { ground: Ground }) {
  const help = useSignal(false);
  const pair = useCompared();
  const grounds = pair ?? [ground];
  const { state: value } = ground;
  const compared = useRef(pair);
  compared.current = pair;
  const keys = useMemo(
    () =>
      keysOf(
        () => (help.value = true),
        (shown, step) => showNext(shown, compared.current, step),
      ),
    [],
  );
  const now = useRef(ground);
  now.current = ground;
  useFull(value.full);
  useEffect(() => listen(keys, () => (help.value ? null : now.current)), []);
  return (
    <GroundContext.Provider value={ground}>
      <Bar showHelp={() => (help.value = true)} />
      <Headline />
      <div class={pair ? 'middle compared' : 'middle'} style={sizesOf(value)}>
        <div class="stage">
          {grounds.map((one, i) => (
            <GroundContext.Provider key={i} value={one}>
              <Guard>
                <Overview />
              </Guard>
            </GroundContext.Provider>
          ))}
          <Windows />
          {grounds.map((one, i) => (
            <>
              {pair && <Which own={one} />}
              <GroundContext.Provider key={i} value={one}>
                <Guard>
                  <Picture />
                </Guard>
                <Guard>
                  <AnnotationLanes />
                </Guard>
              </GroundContext.Provider>
            </>
          ))}
        </div>
        <Separator kind="side" value={value.side} change={(side) => change({ side })} />
        <aside class="side">
          <Guard>
            <Legend />
            <Details />
          </Guard>
        </aside>
      </div>
      <Separator kind="tall" value={value.tall} change={(tall) => change({ tall })} />
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
  const key = JSON.stringify(place);
  const answer = useAnswer(`${key} ${measure}`, async () =>
    place ? { key, frames: await read(engine, place, measure) } : null,
  );
  return { frames: answer.value?.key === key ? answer.value.frames : null, error: answer.error };
}

export function App({ page, engine }: { page: Page; engine: Remote }) {
  const { value } = state;
  const last = useRef<Ground | null>(null);
  const snapshot = Math.min(Math.max(value.snapshot, 0), page.snapshots.length - 1);
  const said = page.snapshots[snapshot];
  const device = Math.min(Math.max(value.device, 0), (said?.devices.length ?? 0) - 1);
  const there = said?.devices[device];
  const place = there ? { snapshot, device } : null;
  const other = place && page.kind === 'compare' ? otherPlace(page, place) : null;
  // Each of two compared snapshots stays with its question, whichever is shown.
  const second = other !== null && snapshot === 1;
  const one = useRead(engine, second ? other : place);
  const two = useRead(engine, second ? place : other);
  const [answer, its] = second ? [two, one] : [one, two];
  if (place && answer.frames) {
    last.current = grounded(page, engine, value, place, answer.frames, change);
  }
  const pair = useOther(page, engine, last.current, other, its.frames);
  if (!there || !place) return <Nothing page={page} />;
  if (answer.error) {
    return (
      <div class="nothing">
        <p class="failed">The page cannot be shown: {answer.error}</p>
      </div>
    );
  }
  return last.current ? (
    <ComparedContext.Provider
      value={pair && (pair.place.snapshot ? [last.current, pair] : [pair, last.current])}
    >
      <Main ground={last.current} />
    </ComparedContext.Provider>
  ) : (
    <div class="reading">
      <p class="dim">Reading {said?.name} …</p>
    </div>
  );
}
