"""Review by native speakers: a page that works on a phone, one SQLite file, and a data set with people's votes.

From a data set to votes: ``asked`` (what is shown, without the key), ``handing_out`` (what is asked next),
``page_server`` and ``offline_page`` (where people answer), ``recording`` and ``review_file`` (where answers stay),
``verdicts`` and ``findings`` (what they say). ``opinions`` is the form of an answer everywhere.
"""
