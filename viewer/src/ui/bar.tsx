// The bar at the top: the file, and the part of it that is shown.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { MEASURES, type Measure } from '../core/page.js';
import { searches } from '../core/search.js';
import type { Axis } from '../protocol.js';
import { Buttons } from './buttons.js';
import { useGround } from './ground.js';
import { swapAxis } from './keys.js';
import { MEANINGS } from './meanings.js';
import { ELSEWHERE, Picker, SyncSelect } from './snapshots.js';
import { change } from './state.js';

/** How long typing must pause before the search starts. */
const TYPING_MS = 200;

function Search({ search }: { search: string }) {
  const typed = useSignal(search);
  const wrong = useSignal<string | null>(null);
  useEffect(() => {
    typed.value = search;
  }, [search]);
  useEffect(() => {
    if (typed.value === search) return;
    const later = setTimeout(() => {
      try {
        searches(typed.value);
        wrong.value = null;
        change({ search: typed.value, group: null, pin: null });
      } catch (error) {
        wrong.value = error instanceof Error ? error.message : 'not a regular expression';
      }
    }, TYPING_MS);
    return () => clearTimeout(later);
  }, [typed.value]);
  return (
    <div class="search">
      <input
        id="search"
        type="search"
        placeholder="Search code ( / )"
        aria-label="Search functions and files with a regular expression"
        aria-invalid={wrong.value !== null}
        title={
          wrong.value ?? 'A regular expression: matches a function, file:line or file:function'
        }
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
        }}
      />
      {wrong.value !== null && (
        <p class="wrong" role="alert">
          {wrong.value}
        </p>
      )}
    </div>
  );
}

export function Bar({ showHelp }: { showHelp: () => void }) {
  const ground = useGround();
  const { page, place, snapshot, state, axis, device } = ground;
  return (
    <header class="bar">
      <h1 title={snapshot.file}>
        <span class="brand">memreplay</span>{' '}
        {page.kind !== 'compare' && (
          <span class="file">{page.kind === 'one' ? snapshot.name : page.title}</span>
        )}
      </h1>
      <div class="fields">
        <Picker />
        {snapshot.devices.length > 1 && (
          <label class="field">
            device{' '}
            <select
              value={place.device}
              onChange={(event) =>
                change({ ...ELSEWHERE, device: Number(event.currentTarget.value) })
              }
            >
              {snapshot.devices.map((one, i) => (
                <option key={one.device} value={i}>
                  {one.device}
                </option>
              ))}
            </select>
          </label>
        )}
        <label class="field">
          bytes{' '}
          <select
            value={state.measure}
            title={MEANINGS[state.measure]}
            onChange={(event) => change({ measure: event.currentTarget.value as Measure })}
          >
            {MEASURES.map((one) => (
              <option key={one} title={MEANINGS[one]}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          axis{' '}
          <select
            value={axis}
            disabled={device.last_us === null}
            title={device.last_us === null ? 'this snapshot has no times' : 'Axis'}
            onChange={(event) =>
              (event.currentTarget.value as Axis) !== axis && void swapAxis(ground)
            }
          >
            <option>event</option>
            <option>time</option>
          </select>
        </label>
        <SyncSelect />
      </div>
      <Search search={state.search} />
      <Buttons showHelp={showHelp} />
    </header>
  );
}
