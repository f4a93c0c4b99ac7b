// Runs in the frame beside the interactive page: it hands files that are dropped there to the page around it, because
// the browser tells only the frame.

import { filesOf } from './dropped.js';
import type { FromFrame } from './protocol.js';

function tell(message: FromFrame): void {
  parent.postMessage(message, '*');
}

addEventListener('dragover', (event) => {
  event.preventDefault();
  tell({ what: 'over', on: true });
});
addEventListener('dragleave', () => tell({ what: 'over', on: false }));
addEventListener('drop', (event) => {
  event.preventDefault();
  tell({ what: 'over', on: false });
  if (event.dataTransfer) {
    void filesOf(event.dataTransfer).then((found) => tell({ what: 'dropped', found }));
  }
});
