import { lazy, StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter, Link, Route, Routes } from "react-router";
import Items from "./Items.jsx";

const List = lazy(() => import("./List.jsx"));
const About = lazy(() => import("./About.jsx"));

createRoot(document.getElementById("app")).render(
  <StrictMode>
    <BrowserRouter>
      <nav>
        <Link to="/">Home</Link> <Link to="/list/">List</Link> <Link to="/about/">About</Link>{" "}
        <Link to="/none/">None</Link>
      </nav>
      <Suspense fallback={<p>Loading</p>}>
        <Routes>
          <Route path="/" element={<Items of="home" />} />
          <Route path="/list/" element={<List />} />
          <Route path="/about/" element={<About />} />
          <Route path="*" element={<p>Not found</p>} />
        </Routes>
      </Suspense>
    </BrowserRouter>
  </StrictMode>,
);
