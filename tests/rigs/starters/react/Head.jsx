import "./head.css";

/** In a chunk that two pages share. */
export default function Head({ children }) {
  return <h1 className="head">{children}</h1>;
}
