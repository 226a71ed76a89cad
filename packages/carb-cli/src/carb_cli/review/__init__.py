"""Review by native speakers: a page that works on a phone, one SQLite file, and a data set with people's votes.

From a data set to votes: ``items`` (what is shown, without the key), ``order`` (what is asked next), ``server`` and
``page`` (where people answer), ``recording`` and ``store`` (where answers stay), ``report`` and ``applying`` (what they
say). ``answers`` is the form of an answer everywhere: in the page, in the file and in a sheet.
"""
