import { useEffect, useState } from "react";

/** Links of the data file that *of* names, by fetch. */
export default function Items({ of }) {
  const [items, setItems] = useState([]);
  useEffect(() => {
    const aborted = new AbortController();
    fetch(`/api/${of}.json`, { signal: aborted.signal })
      .then((answer) => answer.json())
      .then(setItems, () => {});
    return () => aborted.abort();
  }, [of]);
  return (
    <ul>
      {items.map(([url, word]) => (
        <li key={url}>
          <a href={url}>{word}</a>
        </li>
      ))}
    </ul>
  );
}
