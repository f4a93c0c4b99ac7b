// Runs in the frame beside the interactive page: it hands files that are dropped there to the page around it, because
// the browser tells only the frame.

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
  const { items, files } = event.dataTransfer ?? { items: [], files: [] };
  if ([...items].some((item) => item.webkitGetAsEntry?.()?.isDirectory)) tell({ what: 'folder' });
  else tell({ what: 'dropped', found: [...files].map((file) => ({ path: file.name, file })) });
});
