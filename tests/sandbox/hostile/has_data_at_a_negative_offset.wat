;; expect: 1.11
;; role: sampler
(data (i32.const -1) "a")
