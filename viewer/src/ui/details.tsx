// One allocation in words: how large, from when to when, and who asked for it.

import type { Allocation, Stack } from '../protocol.js';
import { useAnswer } from './answers.js';
import { type Ground, groupLines, useGround } from './ground.js';
import { change } from './state.js';
import { count, fineDuration, size } from './units.js';

function life(one: Allocation, ground: Ground): string {
  const { madeUs, freedUs, made, freed } = one;
  if (made === null && freed === null) return 'all of the recording';
  if (freed === null) return 'until the end of the recording';
  const events = made === null ? null : freed - made;
  const time =
    madeUs !== null && freedUs !== null && made !== null ? fineDuration(freedUs - madeUs) : null;
  const words = [time, events === null ? null : `${count(events)} events`].filter(Boolean);
  return words.length ? words.join(', ') : `${ground.device.events} events`;
}

/** Its lines: the few that a tooltip has room for, or all. */
export function AllocationLines(props: {
  ground: Ground;
  allocation: Allocation;
  brief?: boolean;
}) {
  const { ground, allocation: one, brief } = props;
  const group = one.groups.stack;
  const [name, ...callers] = group === undefined ? [] : groupLines(ground, 'stack', group);
  return (
    <div class="allocation" data-what="allocation" data-id={one.id}>
      <p class="headline">
        <strong data-what="allocation-bytes" data-bytes={one.requested}>
          {size(one.requested)}
        </strong>{' '}
        {name ?? ''}
      </p>
      {brief &&
        callers.slice(0, 3).map((line) => (
          <p class="caller" key={line}>
            {line}
          </p>
        ))}
      <dl class="pairs">
        <dt>requested</dt>
        <dd>{count(one.requested)} bytes</dd>
        <dt>block</dt>
        <dd>{count(one.block)} bytes</dd>
        <dt>made</dt>
        <dd>{one.made === null ? 'before the recording' : `event ${count(one.made)}`}</dd>
        <dt>freed</dt>
        <dd>
          {one.freed === null ? 'not in the recording' : `event ${count(one.freed)}`}
          {one.asked !== null && one.freed !== null && one.asked !== one.freed
            ? `, asked for at ${count(one.asked)}`
            : ''}
        </dd>
        <dt>lived</dt>
        <dd>{life(one, ground)}</dd>
        {!brief && (
          <>
            <dt>address</dt>
            <dd>{one.address}</dd>
            {one.pool !== null && (
              <>
                <dt>pool</dt>
                <dd>{one.pool}</dd>
              </>
            )}
            {one.stream !== null && (
              <>
                <dt>stream</dt>
                <dd>{one.stream}</dd>
              </>
            )}
            {(['category', 'module', 'annotation'] as const).map((way) => {
              const of = one.groups[way];
              return of === undefined ? null : (
                <>
                  <dt>{way}</dt>
                  <dd>{groupLines(ground, way, of)[0]}</dd>
                </>
              );
            })}
          </>
        )}
      </dl>
    </div>
  );
}

/** The frames of a stack, innermost first; plumbing is dim. */
export function StackLines({ ground, stack }: { ground: Ground; stack: Stack }) {
  const { frames, snapshot } = { frames: ground.known.frames, snapshot: ground.snapshot };
  if (!stack.frames.length) return <p class="dim">no stack was recorded</p>;
  return (
    <ol class="frames">
      {Array.from(stack.frames, (frame, i) => {
        const file = snapshot.texts[frames.files[frame]!] ?? '';
        const line = frames.lines[frame]!;
        return (
          <li key={i} class={stack.code[i] ? 'code' : 'plumbing'}>
            <span>{snapshot.texts[frames.functions[frame]!] || '(no function)'}</span>
            <span class="file">{file && `${file}${line ? `:${line}` : ''}`}</span>
          </li>
        );
      })}
    </ol>
  );
}

/** The allocation that was clicked. */
export function Details() {
  const ground = useGround();
  const { engine, place, state } = ground;
  const answer = useAnswer(JSON.stringify([place, state.pin]), async () => {
    if (state.pin === null) return null;
    const allocation = await engine.allocation(place, state.pin);
    return { allocation, stack: await engine.stack(place.snapshot, allocation.stack) };
  });
  if (state.pin === null || !answer.value) return null;
  const { allocation, stack } = answer.value;
  return (
    <section class="details" aria-label="The selected allocation">
      <button
        type="button"
        class="close"
        aria-label="Deselect"
        onClick={() => change({ pin: null })}
      >
        ×
      </button>
      <AllocationLines ground={ground} allocation={allocation} />
      <StackLines ground={ground} stack={stack} />
    </section>
  );
}
