"""./course handout and ./course grade: what students get, and what becomes of what they hand in.

handout      the students' package: no solutions, no planted mistakes, no history
submission   takes what may be graded out of a folder or an archive that nobody trusts
structure    which names an exercise may not use
sandbox      runs a program with limits on time, memory, processes, files and output
grading      public and hidden tests of each exercise, held against what the reference does
report       results.json of Gradescope, JUnit, and a table
"""
