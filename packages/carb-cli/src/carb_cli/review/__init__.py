"""Review by native speakers: a page that works on a phone, one SQLite file, and a data set with
people's votes."""
